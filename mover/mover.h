/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves VMs of this host to other hosts: gets the next step from move/, writes it to the journal,
 * executes it through actuators/, and records the outcome. Each move has its own thread. A move
 * that was in progress when vgpud ended is resumed by querying both hosts.
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
    vg_region *region; /* NULL if this host is not in a cluster */
    vg_reservations *reservations;
    vg_event_log *events;
    const char *host; /* the name of this host */
};

typedef struct vg_mover vg_mover;

vg_mover *vg_mover_new(const struct vg_mover_parts *parts, vg_move_settings *take_settings);

/* Replaces the settings, for moves that start from now on. */
void vg_mover_configure(vg_mover *mover, vg_move_settings *take_settings);
vg_move_settings *vg_mover_settings(vg_mover *mover); /* the caller unrefs it */

const char *vg_mover_host(const vg_mover *mover); /* the name of this host */

/* Resumes the moves in the journal, once it can be read. */
void vg_mover_recover(vg_mover *mover);

/* Starts to check whether VMs are given their GPUs manually after a move has failed. */
void vg_mover_watch(vg_mover *mover);

/* Interrupts the moves in their present steps; the next vgpud resumes them. NULL is fine. */
void vg_mover_free(vg_mover *mover);

/* Resolves a request: the VM's name and UUID, the peer and its host, the GPUs, and the executor of
 * the move. The caller has found the VM. The errors are those of vg_backend.migrate. Blocks. */
struct vg_migration *vg_mover_prepare(vg_mover *mover, const struct vg_inv_vm *vm,
                                      const struct vg_migration_request *request, GError **err);

/* Finds everything that would make the move fail, as sentences (char *), and fills in the guest's
 * CUDA programs. paths, unless it is NULL, gets the state of each path that the VM needs on the
 * target (struct vg_path_check). Returns -1 and sets *err if the problems cannot be determined.
 * Blocks. */
int vg_mover_check(vg_mover *mover, struct vg_migration *migration, GPtrArray *problems,
                   GPtrArray *paths, GError **err);

/* Determines whether the VM could be moved at all. The caller frees the result. Blocks. */
struct vg_movable *vg_mover_movable(vg_mover *mover, const struct vg_inv_vm *vm);

/* Moves a VM's OpenCL programs that use a vgpu-proxy to another place, which must have been
 * checked. `move` specifies the VM and the place, and receives the result. A dry run does not query
 * the guest. Returns -1 with VG_E_REFUSED if actions are disabled or the guest does not support it,
 * with VG_E_CONFLICT if the VM is being moved, or with the errors of a request to the guest.
 * Blocks. */
int vg_mover_switch(vg_mover *mover, struct vg_proxy_move *move, GError **err);

/* Sends the guest the place where its OpenCL programs find a GPU, such as "proxy:tcp:HOST:PORT",
 * and the token for it; `at` is NULL for no GPU. Returns -1 and sets *err if that is not
 * possible now, such as while the VM is being moved. Blocks. */
int vg_mover_send_proxy(vg_mover *mover, const char *uuid, const char *at, const char *token,
                        const atomic_bool *cancel, GError **err);

/* Measures how a VM of this host uses its memory. Values that cannot be measured are unchanged.
 * Blocks for a few seconds. */
void vg_mover_measure(vg_mover *mover, const char *uuid, int64_t *ret_touched_bytes,
                      int64_t *ret_dirty_bytes_per_s);

/* An order to move a VM. */
struct vg_mover_order {
    const char *key; /* from the request, for the journal; may be NULL */
    const char *request;
    /* Checks the move against other moves in progress; none can start during the check. May be
     * NULL. */
    int (*check)(void *data, const struct vg_migration *migration, GError **err);
    void *data;
};

/* Starts the move. If too many are in progress, from here or to the same host, queues it instead
 * and sets waits_for. Fails with VG_E_CONFLICT if the queue is full, or if the VM has a move that
 * has not ended. Blocks for the journal. */
int vg_mover_start(vg_mover *mover, struct vg_migration *migration,
                   const struct vg_mover_order *order, GError **err);

/* Returns the number of moves that have ended since the start. Does not block. */
unsigned vg_mover_ends(vg_mover *mover);

/* Returns the present state of a move. Fails with VG_E_NOT_FOUND. Blocks for the journal. */
struct vg_migration *vg_mover_read(vg_mover *mover, const char *id, GError **err);

/* Lists moves (struct vg_migration), newest first, made before before_ns; active: only those that
 * have not ended. If the journal does not answer, lists only moves in progress; *ret_lacks then
 * has the reason if others may be missing, otherwise NULL. Blocks for the journal. */
GPtrArray *vg_mover_list(vg_mover *mover, bool active, int64_t before_ns, size_t limit,
                         char **ret_lacks, GError **err);

/* The maximum number of queued moves. */
#define VG_MOVER_QUEUE_MAX 100

/* Functions that start a queued move when its turn comes. */
struct vg_mover_turn {
    /* Resolves the request again, as vg_mover_prepare(), with all other checks before a move
     * starts. request: the document of struct vg_migration_request. Blocks. */
    struct vg_migration *(*prepare)(void *data, const struct vg_migration *queued,
                                    const char *request, GError **err);
    /* Checks it against moves in progress, as the check of an order does. */
    int (*check)(void *data, const struct vg_migration *migration, GError **err);
    /* Returns whether the VM is known to be on this host. Does not block. */
    bool (*is_here)(void *data, const char *uuid);
};

/* Enables the queue: moves start when their turn comes. turn and data are borrowed. */
int vg_mover_run_queue(vg_mover *mover, const struct vg_mover_turn *turn, void *data, GError **err);

/* Returns how many moves a caller that respects [actions] moves may have in progress or queued; 0
 * while the queue is full. */
int64_t vg_mover_places(vg_mover *mover);

/* Reverses a move; a queued move ends immediately. Fails with VG_E_CONFLICT if it is too late. */
struct vg_migration *vg_mover_abort(vg_mover *mover, const char *id, GError **err);

/* Resumes a failed move, to complete its remaining steps. If too many moves are in progress, it
 * becomes the next in the queue. Fails with VG_E_CONFLICT if it has not failed, if nothing remains
 * to be done, or if its VM has another move that has not ended. Blocks for the journal. */
struct vg_migration *vg_mover_retry(vg_mover *mover, const char *id, const char *by, GError **err);

/* Appends a struct vg_approval for each move that has not ended, including queued moves. */
void vg_mover_add_approvals(vg_mover *mover, GPtrArray *list);

/* Lists the VMs (struct vg_bare_vm) that have lost their GPUs because their move has failed or is
 * waiting. The caller frees the list. Does not block. */
GPtrArray *vg_mover_bare(vg_mover *mover);

/* Starts the shutdown of vgpud: a migration is left to libvirt or nova, other moves are reversed,
 * and no new moves start. */
void vg_mover_end_moves(vg_mover *mover);

/* Waits for moves that are being reversed, until a time (CLOCK_MONOTONIC). */
void vg_mover_wait(vg_mover *mover, int64_t until_ns);

/* Returns the UUIDs (char *) of the VMs that are being moved now, without those that are queued. */
GPtrArray *vg_mover_moving(vg_mover *mover);

#endif
