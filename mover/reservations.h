/* SPDX-License-Identifier: Apache-2.0
 *
 * Reserves this host's GPUs for arriving VMs, and for VMs that have left and may return. All
 * reservations are in the journal; a reservation whose lease has expired no longer counts. Leases
 * are measured by a monotonic clock, and restart when vgpud starts. Any thread. All functions
 * except vg_reservations_taken() and vg_reservations_move_of() block. Those that renew, list and
 * release wait only for the journal, never for libvirt.
 */
#ifndef VG_MOVER_RESERVATIONS_H
#define VG_MOVER_RESERVATIONS_H

#include "journal/journal.h"
#include "model/reservation.h"
#include "mover/move-settings.h"

typedef struct vg_reservations vg_reservations;

vg_reservations *vg_reservations_new(vg_journal *journal);
void vg_reservations_free(vg_reservations *reservations); /* NULL is fine */

/* Checks an arriving VM (its UUID) against another arriving VM; no other reservation can be made
 * during the check. */
typedef int vg_reservations_check(void *data, const char *uuid, const char *other, GError **err);

/* Reserves free GPUs for an arriving VM, and fills in the id, the times, and this host's devices.
 * The reservation belongs to the client in its asked_by. If that client repeats the request for the
 * same move, the existing reservation is extended and returned. A dry run reserves nothing and
 * returns no id.
 *
 * Fails with VG_E_CONFLICT and the reason if no GPU is free, if the maximum number of VMs is
 * already arriving, or if check, which may be NULL, fails. Fails with VG_E_DENIED if another client
 * has a reservation for the move, or VG_E_REFUSED if actions are disabled. */
int vg_reservations_make(vg_reservations *reservations, const struct vg_move_settings *settings,
                         struct vg_reservation *reservation, vg_reservations_check *check,
                         void *data, GError **err);

/* Reserves a VM's GPUs on this host while the VM is away. Fails with VG_E_CONFLICT if one of them
 * is reserved for another VM or used by a running VM. That can happen if the lease of an earlier
 * hold has expired, or a move is retried after it had ended. */
int vg_reservations_hold(vg_reservations *reservations, const struct vg_move_settings *settings,
                         const struct vg_migration *migration, GError **err);

/* Extends a lease, without writing anything. client is the requesting client, or NULL for this
 * vgpud itself. Fails with VG_E_NOT_FOUND if the reservation does not exist or its lease has
 * expired; with VG_E_DENIED if it belongs to another client. */
struct vg_reservation *vg_reservations_renew(vg_reservations *reservations, const char *id,
                                             const char *client, int64_t lease_s, GError **err);

/* Ends a reservation, with the same errors. Makes libvirt remove the reservation's mediated devices
 * that a vgpud has created and no VM uses, if possible. */
int vg_reservations_release(vg_reservations *reservations, const struct vg_move_settings *settings,
                            const char *id, const char *client, GError **err);

/* Returns the id that vg_reservations_hold() uses for a move's GPUs; the caller frees it. */
char *vg_reservations_hold_id(const char *move_id);

GPtrArray *vg_reservations_list(vg_reservations *reservations, GError **err);

/* Returns the id of the move that has GPUs reserved for this VM, as currently known, or NULL. The
 * caller frees it. */
char *vg_reservations_move_of(vg_reservations *reservations, const char *uuid);

/* Returns the PCI addresses and UUIDs of everything currently reserved, as char *, freed with the
 * array. */
GPtrArray *vg_reservations_taken(vg_reservations *reservations);

#endif
