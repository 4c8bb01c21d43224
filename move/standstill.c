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

void
vg_standstill_end(struct vg_migration *record, const struct vg_move *machine,
                  enum vg_move_verb verb, bool ok, int64_t at_ns)
{
    bool goes_on = false;

    if (record->standstill_began_ns == 0 || record->standstill_ns > 0)
        return;
    if (machine->has_agent)
        goes_on = (ok && (verb == VG_MOVE_RESUME || verb == VG_MOVE_REVIVE)) ||
                  (verb == VG_MOVE_QUIESCE && machine->guest_as_before);
    else
        goes_on = ok && machine->facts.gpu == VG_GPU_ATTACHED;
    if (goes_on)
        record->standstill_ns = MAX(at_ns - record->standstill_began_ns, 1);
}
