/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures how long the programs that use a VM's GPUs stand still: from the moment at which they
 * are to release them, or from the unplugging if the guest is not asked, until they have them
 * again. Where all of them compute at a proxy in between, it is how long the one that stood still
 * longest did in all. Pure.
 */
#ifndef VG_MOVE_STANDSTILL_H
#define VG_MOVE_STANDSTILL_H

#include "move/move.h"

/* Record a step that begins, or one that has ended and was reported to the machine, in the record
 * of its move. at_ns is the present time. */
void vg_standstill_begin(struct vg_migration *record, const struct vg_move *machine,
                         enum vg_move_verb verb, int64_t at_ns);
void vg_standstill_end(struct vg_migration *record, const struct vg_move *machine,
                       enum vg_move_verb verb, bool ok, int64_t at_ns);

#endif
