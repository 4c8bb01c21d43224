/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "move/place.h"

#include <glib.h>

enum vg_migration_place
vg_place_of_hosts(const struct vg_place_answer *source, const struct vg_place_answer *target)
{
    const bool is_here = source->known && source->place == VG_DOMAIN_HERE;
    const bool is_there = target->known && target->place == VG_DOMAIN_HERE;

    if ((source->known && source->place == VG_DOMAIN_LEAVING) ||
        (target->known && target->place == VG_DOMAIN_INCOMING))
        return VG_PLACE_MOVING;
    if (is_here && is_there)
        return VG_PLACE_BOTH;
    /* A VM that runs on the source is not on the target, whether the target answers or not: a
     * migration pauses it before the other one runs. */
    if (is_here)
        return VG_PLACE_SOURCE;
    if (is_there)
        return VG_PLACE_TARGET;
    return source->known && target->known ? VG_PLACE_NOWHERE : VG_PLACE_UNKNOWN;
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
