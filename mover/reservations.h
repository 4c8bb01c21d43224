/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps GPUs of this host for VMs that come, and for VMs that have left and may come back.
 * Everything is in the journal; a reservation whose lease is over no longer counts. Leases count by
 * a monotonic clock, and anew after a start of vgpud. Any thread. All calls but
 * vg_reservations_taken() and vg_reservations_move_of() block, those that renew, list and release
 * only for the journal, never for libvirt.
 */
#ifndef VG_MOVER_RESERVATIONS_H
#define VG_MOVER_RESERVATIONS_H

#include "journal/journal.h"
#include "model/reservation.h"
#include "mover/move-settings.h"

typedef struct vg_reservations vg_reservations;

vg_reservations *vg_reservations_new(vg_journal *journal);
void vg_reservations_free(vg_reservations *reservations); /* NULL is fine */

/* Refuses a VM that comes (its UUID) beside another one that comes; none is let in meanwhile. */
typedef int vg_reservations_check(void *data, const char *uuid, const char *other, GError **err);

/* Reserves free GPUs for a VM that comes, and fills in the id, the times, and the devices of this
 * host. The reservation belongs to the client in its asked_by, whose same move gets the same
 * reservation again, extended. A dry run keeps nothing, and gets no id. Fails with VG_E_CONFLICT
 * and the reason if none is free, if as many VMs come already as the settings allow, or if check,
 * which may be NULL, refuses; with VG_E_DENIED if the move has a reservation of another client; or
 * with VG_E_REFUSED if acting is off. */
int vg_reservations_make(vg_reservations *reservations, const struct vg_move_settings *settings,
                         struct vg_reservation *reservation, vg_reservations_check *check,
                         void *data, GError **err);

/* Reserves the GPUs that a VM of this host has, while the VM is away. Fails with VG_E_CONFLICT if
 * one of them is kept for another VM or is in one that runs, which can be if the lease of an
 * earlier hold has lapsed, or the move had ended and is taken up again. */
int vg_reservations_hold(vg_reservations *reservations, const struct vg_move_settings *settings,
                         const struct vg_migration *migration, GError **err);

/* Extends a lease, which writes nothing. client is who asks, or NULL for this vgpud itself. Fails
 * with VG_E_NOT_FOUND if there is no such reservation, or its lease is over; with VG_E_DENIED if it
 * belongs to another client. */
struct vg_reservation *vg_reservations_renew(vg_reservations *reservations, const char *id,
                                             const char *client, int64_t lease_s, GError **err);

/* Ends a reservation. Fails likewise. Mediated devices of it
 * that a vgpud has made, and no VM has, are removed if that can be; this asks libvirt. */
int vg_reservations_release(vg_reservations *reservations, const struct vg_move_settings *settings,
                            const char *id, const char *client, GError **err);

/* Returns the id under which vg_reservations_hold() keeps the GPUs of a move; the caller frees
 * it. */
char *vg_reservations_hold_id(const char *move_id);

GPtrArray *vg_reservations_list(vg_reservations *reservations, GError **err);

/* Returns the id of the move for which GPUs are reserved for this VM, as far as is known at the
 * moment, or NULL if there is none. The caller frees it. */
char *vg_reservations_move_of(vg_reservations *reservations, const char *uuid);

/* Returns the PCI addresses and UUIDs of everything reserved at the moment, as char *, freed with
 * the array. */
GPtrArray *vg_reservations_taken(vg_reservations *reservations);

#endif
