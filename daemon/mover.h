/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves VMs of this host to others: has move/ decide what is next, writes it to the journal, has
 * actuators/ do it, and writes down what came of it. Each move has a thread of its own. One that
 * was under way when vgpud ended is taken up again with a look at both hosts.
 */
#ifndef VG_DAEMON_MOVER_H
#define VG_DAEMON_MOVER_H

#include "api/event-log.h"
#include "cluster/peers.h"
#include "daemon/move-config.h"
#include "daemon/reservations.h"
#include "journal/journal.h"
#include "model/inventory.h"
#include "model/migration.h"
#include "move/move.h"

struct vg_mover_parts {
    vg_journal *journal; /* all borrowed */
    vg_peers *peers;
    vg_reservations *reservations;
    vg_event_log *events;
    const char *host; /* what this host is called */
};

typedef struct vg_mover vg_mover;

vg_mover *vg_mover_new(const struct vg_mover_parts *parts, vg_move_settings *take_settings);

/* Sets what holds for moves that begin from now on. */
void vg_mover_configure(vg_mover *mover, vg_move_settings *take_settings);
vg_move_settings *vg_mover_settings(vg_mover *mover); /* the caller unrefs it */

/* Goes on with what the journal has. */
void vg_mover_recover(vg_mover *mover);

/* Interrupts moves where they are; the next vgpud goes on with them. NULL is fine. */
void vg_mover_free(vg_mover *mover);

/* Finds out what a request means: the VM's name and UUID, the peer and its host, its GPUs, and who
 * moves it. The caller has looked the VM up. Errors as of vg_backend.migrate. Blocks. */
struct vg_migration *vg_mover_prepare(vg_mover *mover, const struct vg_inv_vm *vm,
                                      const struct vg_migration_request *request, GError **err);

/* Finds everything that would make it fail, as sentences (char *), and the programs of CUDA that
 * the guest has, into migration. -1 and *err if somebody cannot be asked. Blocks. */
int vg_mover_check(vg_mover *mover, struct vg_migration *migration, GPtrArray *problems,
                   GError **err);

/* Tells whether it could be moved, to whatever host. The caller frees it. Blocks. */
struct vg_movable *vg_mover_movable(vg_mover *mover, const struct vg_inv_vm *vm);

/* Begins it. key, request: of the journal. Blocks for the journal. */
int vg_mover_start(vg_mover *mover, struct vg_migration *migration, const char *key,
                   const char *request, GError **err);

/* Returns a move as it is now; VG_E_NOT_FOUND. Blocks for the journal. */
struct vg_migration *vg_mover_read(vg_mover *mover, const char *id, GError **err);

/* Turns it back; VG_E_CONFLICT: it is too late. */
struct vg_migration *vg_mover_abort(vg_mover *mover, const char *id, GError **err);

/* Appends a struct vg_approval for each move that has not ended. */
void vg_mover_add_approvals(vg_mover *mover, GPtrArray *list);

/* Returns the UUIDs (char *) of VMs that are being moved now. */
GPtrArray *vg_mover_moving(vg_mover *mover);

#endif
