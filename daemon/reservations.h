/* SPDX-License-Identifier: Apache-2.0
 *
 * GPUs of this host that are kept: for VMs that come, and for VMs that left and may come back. All
 * of it is in the journal; a lease that is over is as if it had never been. Any thread; all calls
 * but vg_reservations_taken() block.
 */
#ifndef VG_DAEMON_RESERVATIONS_H
#define VG_DAEMON_RESERVATIONS_H

#include "daemon/move-config.h"
#include "journal/journal.h"
#include "model/reservation.h"

typedef struct vg_reservations vg_reservations;

vg_reservations *vg_reservations_new(vg_journal *journal);
void vg_reservations_free(vg_reservations *reservations); /* NULL is fine */

/* Keeps free GPUs for a VM that comes: fills id, times, and what the devices are here. The same
 * move again gets what it has. VG_E_CONFLICT: none is free, why; VG_E_REFUSED: acting is off. */
int vg_reservations_make(vg_reservations *reservations, const struct vg_move_settings *settings,
                         struct vg_reservation *reservation, GError **err);

/* Keeps the GPUs that a VM of this host has, while it is away. */
int vg_reservations_hold(vg_reservations *reservations, const struct vg_migration *migration,
                         int64_t lease_s, GError **err);

/* NULL and VG_E_NOT_FOUND: there is none, or its lease is over. */
struct vg_reservation *vg_reservations_renew(vg_reservations *reservations, const char *id,
                                             int64_t lease_s, GError **err);

/* VG_E_NOT_FOUND. */
int vg_reservations_release(vg_reservations *reservations, const char *id, GError **err);

/* The id of what vg_reservations_hold() keeps for a move; the caller frees it. */
char *vg_reservations_hold_id(const char *move_id);

GPtrArray *vg_reservations_list(vg_reservations *reservations, GError **err);

/* The PCI addresses and UUIDs of all that is kept, as they are known at the moment: char *, freed
 * with the array. */
GPtrArray *vg_reservations_taken(vg_reservations *reservations);

#endif
