/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "move/place.h"

#include <glib.h>

static bool
place_is_moving(const struct vg_place_answer *answer)
{
    return answer->known &&
           (answer->place == VG_DOMAIN_LEAVING || answer->place == VG_DOMAIN_INCOMING);
}

enum vg_migration_place
vg_place_of_hosts(const struct vg_place_answer *source, const struct vg_place_answer *target)
{
    const bool is_here = source->known && source->place == VG_DOMAIN_HERE;
    const bool is_there = target->known && target->place == VG_DOMAIN_HERE;

    /* A migration pauses the VM on the source before it runs on the target. A VM that runs on the
     * source therefore does not run on the target, whether the target answers or not. */
    if (is_here)
        return is_there ? VG_PLACE_BOTH : VG_PLACE_SOURCE;
    if (place_is_moving(source) || place_is_moving(target))
        return VG_PLACE_MOVING;
    if (is_there)
        return VG_PLACE_TARGET;
    if (!source->known || !target->known)
        return VG_PLACE_UNKNOWN;
    /* A paused VM is in its place if the other host certainly does not have it. */
    if (source->place == VG_DOMAIN_STILL)
        return target->place == VG_DOMAIN_STILL ? VG_PLACE_BOTH : VG_PLACE_SOURCE;
    return target->place == VG_DOMAIN_STILL ? VG_PLACE_TARGET : VG_PLACE_NOWHERE;
}

bool
vg_place_needs_target(const struct vg_place_answer *source)
{
    return !source->known || source->place != VG_DOMAIN_HERE;
}

struct vg_move_facts
vg_place_of_nova(const struct vg_place_nova *nova, const char *from, const char *to)
{
    struct vg_move_facts facts = {.place = VG_PLACE_UNKNOWN, .gpu = VG_GPU_UNKNOWN};

    if (!nova->known)
        facts.place = VG_PLACE_NOWHERE;
    else if (nova->is_error)
        facts.final = true;
    else if (nova->is_migrating)
        facts.place = VG_PLACE_MOVING;
    else if (g_strcmp0(nova->host, from) == 0)
        facts.place = VG_PLACE_SOURCE;
    else if (g_strcmp0(nova->host, to) == 0)
        facts.place = VG_PLACE_TARGET;
    else
        facts.final = true;
    return facts;
}
