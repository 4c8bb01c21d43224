/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures how long the programs that use a VM's GPUs are paused. The pause starts when the
 * programs are requested to release the GPUs, or with the unplugging if the guest is not involved.
 * It ends when they have GPUs again. If all programs run on a proxy in between, it is the longest
 * total pause of any program. Pure.
 */
#ifndef VG_MOVE_STANDSTILL_H
#define VG_MOVE_STANDSTILL_H

#include "move/move.h"

/* Record a step in its move's record. _begin: the step starts. _end: the step has ended, and has
 * been reported to the state machine (move/move.h). at_ns is the present time. */
void vg_standstill_begin(struct vg_migration *record, const struct vg_move *machine,
                         enum vg_move_verb verb, int64_t at_ns);
void vg_standstill_end(struct vg_migration *record, const struct vg_move *machine,
                       enum vg_move_verb verb, bool ok, int64_t at_ns);

#endif
