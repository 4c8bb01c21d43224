/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "move/standstill.h"

#include <glib.h>

void
vg_standstill_begin(struct vg_migration *record, const struct vg_move *machine,
                    enum vg_move_verb verb, int64_t at_ns)
{
    const enum vg_move_verb first = machine->has_agent ? VG_MOVE_QUIESCE : VG_MOVE_DETACH;

    if (machine->has_gpus && verb == first && record->standstill_began_ns == 0)
        record->standstill_began_ns = at_ns;
}

/* Returns how long programs were paused that returned from a proxy, or 0 if some did not return. */
static int64_t
standstill_of_switches(const struct vg_guest_programs *guest)
{
    int64_t longest_ns = 0;

    for (guint i = 0; i < guest->programs->len; i++) {
        const struct vg_guest_program *program = guest->programs->pdata[i];
        if (g_strcmp0(program->state, "gone") == 0)
            continue;
        if (program->away_ns == 0 || program->stop_ns == 0)
            return 0;
        longest_ns = MAX(longest_ns, program->away_ns + program->stop_ns);
    }
    return guest->total > guest->programs->len ? 0 : longest_ns;
}

static bool
standstill_is_away(const struct vg_guest_programs *guest)
{
    for (guint i = 0; i < guest->programs->len; i++) {
        const struct vg_guest_program *program = guest->programs->pdata[i];
        if (g_strcmp0(program->state, "away") != 0 && g_strcmp0(program->state, "gone") != 0)
            return false;
    }
    return guest->programs->len > 0 && guest->total == guest->programs->len;
}

void
vg_standstill_end(struct vg_migration *record, const struct vg_move *machine,
                  enum vg_move_verb verb, bool ok, int64_t at_ns)
{
    bool goes_on = false;

    if (record->standstill_ns > 0)
        return;
    if (ok && verb == VG_MOVE_QUIESCE && standstill_is_away(&record->guest))
        record->standstill_began_ns = 0;
    if (machine->has_agent)
        goes_on = (ok && (verb == VG_MOVE_RESUME || verb == VG_MOVE_REVIVE)) ||
                  (verb == VG_MOVE_QUIESCE && machine->guest_as_before);
    else
        goes_on = ok && machine->facts.gpu == VG_GPU_ATTACHED;
    if (!goes_on)
        return;
    record->standstill_ns = standstill_of_switches(&record->guest);
    if (record->standstill_ns == 0 && record->standstill_began_ns > 0)
        record->standstill_ns = MAX(at_ns - record->standstill_began_ns, 1);
}
