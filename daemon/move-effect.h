/* SPDX-License-Identifier: Apache-2.0
 *
 * What a move was good for: CPU time that the VM lost before and after it. Both calls block.
 */
#ifndef VG_DAEMON_MOVE_EFFECT_H
#define VG_DAEMON_MOVE_EFFECT_H

#include "cluster/peers.h"
#include "model/migration.h"
#include "store/store.h"

/* Fills before, of the last minutes in the store. */
void vg_move_effect_before(vg_store *store, struct vg_migration *migration);

/* Fills after, of a move that is done, as the target's vgpud tells; true: that is all there will
 * be. */
bool vg_move_effect_after(vg_peers *peers, struct vg_migration *migration);

#endif
