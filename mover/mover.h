/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves VMs of this host to others: asks move/ for the next step, writes it to the journal, has
 * actuators/ run it, and writes down the outcome. Each move has a thread of its own. A move that
 * was under way when vgpud ended is resumed with a look at both hosts.
 */
#ifndef VG_MOVER_MOVER_H
#define VG_MOVER_MOVER_H

#include <stdatomic.h>

#include "base/event-log.h"
#include "cluster/peers.h"
#include "cluster/region.h"
#include "journal/journal.h"
#include "model/inventory.h"
#include "model/migration.h"
#include "model/proxy-move.h"
#include "move/move.h"
#include "mover/move-settings.h"
#include "mover/reservations.h"

struct vg_mover_parts {
    vg_journal *journal; /* borrowed, like all others */
    vg_peers *peers;
    vg_region *region; /* NULL if this host is in no cluster */
    vg_reservations *reservations;
    vg_event_log *events;
    const char *host; /* the name of this host */
};

typedef struct vg_mover vg_mover;

vg_mover *vg_mover_new(const struct vg_mover_parts *parts, vg_move_settings *take_settings);

/* Replaces the settings, for moves that begin from now on. */
void vg_mover_configure(vg_mover *mover, vg_move_settings *take_settings);
vg_move_settings *vg_mover_settings(vg_mover *mover); /* the caller unrefs it */

const char *vg_mover_host(const vg_mover *mover); /* the name of this host */

/* Resumes the moves that the journal has, once it can be read. */
void vg_mover_recover(vg_mover *mover);

/* Begins to look for VMs that get their GPUs by hand after a move has failed. */
void vg_mover_watch(vg_mover *mover);

/* Interrupts the moves where they are; the next vgpud resumes them. NULL is fine. */
void vg_mover_free(vg_mover *mover);

/* Finds out what a request means: the VM's name and UUID, the peer and its host, the GPUs, and who
 * moves the VM. The caller has looked the VM up. The errors are those of vg_backend.migrate.
 * Blocks. */
struct vg_migration *vg_mover_prepare(vg_mover *mover, const struct vg_inv_vm *vm,
                                      const struct vg_migration_request *request, GError **err);

/* Finds everything that would make the move fail, as sentences (char *), and fills in the guest's
 * CUDA programs. paths, unless it is NULL, gets what was found at each path that the VM needs on
 * the target (struct vg_path_check). Returns -1 and sets *err if that cannot be found out. Blocks.
 */
int vg_mover_check(vg_mover *mover, struct vg_migration *migration, GPtrArray *problems,
                   GPtrArray *paths, GError **err);

/* Finds out whether the VM could be moved at all. The caller frees the result. Blocks. */
struct vg_movable *vg_mover_movable(vg_mover *mover, const struct vg_inv_vm *vm);

/* Has programs of OpenCL of a VM that compute at a vgpu-proxy go on at another place, which has
 * been checked: move says of which VM and where, and what comes of it is put in; in a dry run the
 * guest is not asked. -1: VG_E_REFUSED, as acting is off or the guest could not, VG_E_CONFLICT, as
 * the VM is being moved, or as for asking the guest. Blocks. */
int vg_mover_switch(vg_mover *mover, struct vg_proxy_move *move, GError **err);

/* Tells the guest where its programs of OpenCL find a GPU, "proxy:tcp:HOST:PORT", and the token
 * that they show there; at is NULL where they find none. Returns -1 and sets *err if it cannot be
 * told now, as while the VM is being moved. Blocks. */
int vg_mover_tell_proxy(vg_mover *mover, const char *uuid, const char *at, const char *token,
                        const atomic_bool *cancel, GError **err);

/* Measures how a VM of this host uses its memory. Figures that cannot be measured stay as they are.
 * Blocks for some seconds. */
void vg_mover_measure(vg_mover *mover, const char *uuid, int64_t *ret_touched_bytes,
                      int64_t *ret_dirty_bytes_per_s);

/* An order to move a VM. */
struct vg_mover_order {
    const char *key; /* of the request, for the journal; or NULL */
    const char *request;
    /* Refuses the move, for the sake of others that are under way: none begins meanwhile. May be
     * NULL. */
    int (*check)(void *data, const struct vg_migration *migration, GError **err);
    void *data;
};

/* Begins the move, or has it wait for its turn if too many are under way, from here or to the same
 * host: waits_for is set then. Fails with VG_E_CONFLICT if the queue is full, or if the VM has a
 * move that has not ended. Blocks for the journal. */
int vg_mover_start(vg_mover *mover, struct vg_migration *migration,
                   const struct vg_mover_order *order, GError **err);

/* Returns the number of moves that have ended since the start. Does not block. */
unsigned vg_mover_ends(vg_mover *mover);

/* Returns a move as it is now. Fails with VG_E_NOT_FOUND. Blocks for the journal. */
struct vg_migration *vg_mover_read(vg_mover *mover, const char *id, GError **err);

/* Lists moves (struct vg_migration), newest first, made before before_ns; active: only those that
 * have not ended. While the journal does not answer, those that are under way; *ret_lacks then has
 * the reason, if others may be missing, or else NULL. Blocks for the journal. */
GPtrArray *vg_mover_list(vg_mover *mover, bool active, int64_t before_ns, size_t limit,
                         char **ret_lacks, GError **err);

/* The most moves that wait for their turn. */
#define VG_MOVER_QUEUE_MAX 100

/* What a move of the queue needs when its turn comes. */
struct vg_mover_turn {
    /* Finds out anew what was asked for, as vg_mover_prepare() does, and all else that speaks
     * against the move before it begins. request: the document of struct vg_migration_request.
     * Blocks. */
    struct vg_migration *(*prepare)(void *data, const struct vg_migration *queued,
                                    const char *request, GError **err);
    /* Checks it beside the moves that are under way, as the check of an order does. */
    int (*check)(void *data, const struct vg_migration *migration, GError **err);
    /* Returns whether the VM is known to be on this host. Does not block. */
    bool (*is_here)(void *data, const char *uuid);
};

/* Has moves of the queue begin when their turn comes. turn and data are borrowed. */
int vg_mover_run_queue(vg_mover *mover, const struct vg_mover_turn *turn, void *data, GError **err);

/* Returns how many moves somebody may have under way or queued who wants no more at once than
 * [actions] moves allows; 0 while the queue is full. */
int64_t vg_mover_places(vg_mover *mover);

/* Turns a move back; one that is queued ends at once. Fails with VG_E_CONFLICT if it is too late.
 */
struct vg_migration *vg_mover_abort(vg_mover *mover, const char *id, GError **err);

/* Resumes a failed move, to finish what it left undone; if too many are under way, it is the next
 * of the queue. Fails with VG_E_CONFLICT if it has not failed or has left nothing undone, or if its
 * VM has another move that has not ended. Blocks for the journal. */
struct vg_migration *vg_mover_retry(vg_mover *mover, const char *id, const char *by, GError **err);

/* Appends a struct vg_approval for each move that has not ended, also if it is queued. */
void vg_mover_add_approvals(vg_mover *mover, GPtrArray *list);

/* Lists the VMs (struct vg_bare_vm) whose GPUs were taken away and do not come back, since their
 * move has failed, or waits. The caller frees the list. Does not block. */
GPtrArray *vg_mover_bare(vg_mover *mover);

/* Begins the end of vgpud: a migration is left to libvirt or nova, other moves turn back, and none
 * begins. */
void vg_mover_end_moves(vg_mover *mover);

/* Waits for the moves that turn back, until a time (CLOCK_MONOTONIC). */
void vg_mover_wait(vg_mover *mover, int64_t until_ns);

/* Returns the UUIDs (char *) of the VMs that are being moved now, without those that are queued. */
GPtrArray *vg_mover_moving(vg_mover *mover);

#endif
