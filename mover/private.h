/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VG_MOVER_PRIVATE_H
#define VG_MOVER_PRIVATE_H

#include <pthread.h>

#include <stdatomic.h>

#include "base/thread.h"
#include "move/paths.h"
#include "mover/mover.h"

struct vg_mover {
    struct vg_mover_parts parts;
    pthread_mutex_t lock;
    /* held from the checks of a new move until it is in moves; taken before lock */
    pthread_mutex_t beginning;
    vg_move_settings *settings;
    vg_thread *resuming;   /* waits for the journal to be readable; NULL if not needed */
    GPtrArray *bare;       /* struct vg_bare_vm, the VMs without their GPUs */
    vg_thread *watching;   /* checks whether these VMs are given GPUs manually */
    pthread_cond_t raised; /* signalled when there is such a VM */
    GPtrArray *moves;      /* struct mover_move that have not been freed */
    /* UUIDs, owned, of VMs with a guest request outside of a move; protected by the lock */
    GHashTable *asked;
    GHashTable
        *unkept; /* places, owned, where memory could not be reserved, which has been logged */
    pthread_cond_t answered; /* signalled when one of these requests has ended */
    atomic_uint writes;
    atomic_uint ends;      /* the number of moves that have ended since the start */
    atomic_bool is_silent; /* the journal did not answer the last write */
    bool ending;           /* protected by the lock: no move starts, and no migration starts */
    /* The queue, which the lock protects, too. */
    GPtrArray *queue;      /* struct mover_queued, in the order of their turns */
    GHashTable *ended_to;  /* host: int64_t, CLOCK_MONOTONIC, when the last move to it ended */
    pthread_cond_t turned; /* signalled when the turn of a queued move may have come */
    bool is_turn;          /* the same for a thread that is not waiting at the moment */
    vg_thread *queueing;   /* starts queued moves; NULL until the queue is enabled */
    const struct vg_mover_turn *turn; /* how queued moves are prepared */
    void *turn_data;
};

/* A queued move. It holds no reservation, no lease and no lock in the cluster. */
struct mover_queued {
    struct vg_migration *record; /* protected by the mover's lock, as are the members below */
    char *request;               /* the request, JSON; NULL if not known */
    char *why;                   /* why it does not start now, one sentence */
    bool is_busy;                /* it is being started or removed */
    bool abort_asked; /* while it was being started, or the journal could not be written */
    int64_t
        refused_ns; /* CLOCK_MONOTONIC, when it failed to start at its turn; 0 if it did not fail */
    int64_t again_ns; /* CLOCK_MONOTONIC, when to retry */
};

struct mover_move {
    vg_mover *mover;
    const struct mover_executor *executor;
    vg_move_settings *settings;
    vg_thread *thread;
    vg_thread *renewing; /* renews the reservation and does nothing else */
    atomic_bool cancel;
    atomic_bool leave; /* true once vgpud ends; the next vgpud resumes the move */
    /* true once a VM whose hosts do not answer no longer needs to be queried */
    atomic_bool given_up;
    struct vg_migration *record; /* protected by the lock */
    /* belongs to the thread, except that vg_move_abort() and the state need the lock */
    struct vg_move machine;
    bool ended; /* protected by the lock */
    /* These belong to the thread. */
    bool is_unsaved;  /* the journal did not accept the last record */
    bool leaves_left; /* a QEMU that is waiting for a finished migration does not end */
    bool called_off;  /* the last migration was cancelled, but libvirt may not have ended it yet */
    vg_virt_link *source;
    vg_virt_link *target;
    vg_virt_reboots *reboots; /* of the guest, on both hosts */
    vg_nova *nova;            /* NULL if it is not connected yet, or if libvirt performs the move */
    GPtrArray *paths;       /* struct vg_path_check, borrowed, for a dry run; NULL if not wanted */
    char *peer_uri;         /* the URI of the target's libvirt from this host */
    int64_t waits_since_ns; /* CLOCK_MONOTONIC, while record->waits_for is set */
    /* Data of the reservation, which any thread may renew. */
    pthread_mutex_t leasing;      /* held while it is renewed; taken before the mover's lock */
    pthread_mutex_t holding;      /* held while the source's hold is renewed; taken after leasing */
    _Atomic int64_t renew_ns;     /* CLOCK_MONOTONIC, when it must be renewed; 0 for never */
    int64_t kept_until_ns;        /* the guaranteed end of the lease; protected by leasing */
    struct vg_reservation *given; /* the newest one, if its devices have not been applied yet */
};

/* The outcome of a verb. */
struct mover_outcome {
    bool ok;
    bool may_pass;              /* the cause of the failure may disappear without intervention */
    bool is_final;              /* a retry would fail in the same way */
    struct vg_move_facts facts; /* set by LOOK */
    const char *stands;         /* set by LOOK if the VM is paused: the reason, a constant */
    char *text;                 /* owned */
};

/* The operations that differ between libvirt and nova. The functions block; a move calls them on
 * its own thread. */
struct mover_executor {
    /* Describes a verb's request and its recipient; the caller frees the text. */
    char *(*describe)(const struct mover_move *move, enum vg_move_verb verb);
    /* Runs a verb. Sets the text of *ret and, for LOOK, its facts. Returns -1 and sets *err if it
     * failed. */
    int (*do_verb)(struct mover_move *move, enum vg_move_verb verb, struct mover_outcome *ret,
                   GError **err);
    /* Adds sentences (char *) about problems; without a peer, only problems on this host. Returns
     * -1 and sets *err if the problems cannot be determined. */
    int (*find_problems)(struct mover_move *move, GPtrArray *problems, GError **err);
    /* Checks that a peer can be the target. The pointer is NULL if every peer can. */
    int (*check_peer)(vg_mover *mover, const char *peer, GError **err);
    /* Checks that the VM's devices can move with it. gpus: struct vg_move_device according to
     * libvirt, or NULL if libvirt has not been queried yet. */
    int (*check_devices)(const struct vg_inv_vm *vm, const GPtrArray *gpus, GError **err);
};

/* mover.c */

/* Returns the table of operations of an executor. */
const struct mover_executor *mover_executor_of(enum vg_migration_executor executor);

/* Frees finished moves, and fails with VG_E_BUSY if no more moves may start. The caller holds
 * `beginning`. */
int mover_check_open(vg_mover *mover, GError **err);

/* Creates a move in its initial state from a copy of the record, and starts its thread. */
struct mover_move *mover_new_move(vg_mover *mover, const struct vg_migration *migration);
int mover_launch(vg_mover *mover, struct mover_move *take_move, GError **err);

/* end.c */

/* Returns whether libvirt or nova completes a verb even if vgpud has ended. */
bool mover_is_left_alone(enum vg_move_verb verb);

/* Makes the move's thread end in its present step, without recording anything more. */
void mover_leave(struct mover_move *move);

/* bare.c */

/* Records that the move is waiting, and for what, or that it continues. The first sentence of a
 * wait is reported as an event. */
void mover_wait(struct mover_move *move, const char *what);
void mover_go_on(struct mover_move *move);

/* Raises or clears the alert for a VM without its GPUs after the move has ended. Called under the
 * lock. */
void mover_note_end(struct mover_move *move);

/* Raises the alerts for moves that ended before this vgpud started. moves: struct vg_migration,
 * newest first. */
void mover_note_past(vg_mover *mover, const GPtrArray *moves);

/* Clears the alert for a VM without its GPUs, because the VM has been given GPUs. */
void mover_note_gpus(vg_mover *mover, const char *uuid);

/* libvirt.c */

extern const struct mover_executor mover_libvirt;

/* lease.c */

/* Reserves the GPUs: the source's in case the VM returns, and suitable ones on the target. */
int mover_begin_lease(struct mover_move *move, GError **err);

/* The thread that renews the reservation. If the target no longer has the reservation, requests a
 * new one. If the target cannot provide one, reverses the move unless the VM has switched hosts. */
void mover_renew_run(vg_thread *self, void *arg);

/* Before the VM gets GPUs on the target, checks that they are reserved for it, and not for another
 * VM. Sets the devices. */
int mover_check_lease(struct mover_move *move, GError **err);

/* The same check before the VM gets the source's GPUs back. */
int mover_check_hold(struct mover_move *move, GError **err);

/* Ends the renewals. */
void mover_end_lease(struct mover_move *move);

/* lock.c */

/* Records a new move, after ensuring that no other host in the cluster can start a move of the
 * same VM. order is NULL if it was queued. The caller holds `beginning`. */
int mover_begin_locked(vg_mover *mover, struct vg_migration *migration,
                       const struct vg_mover_order *order, GError **err);

/* Records that a queued move starts. */
int mover_start_queued(vg_mover *mover, const struct vg_migration *migration, GError **err);

/* Fails if another host in the cluster is also moving the VM. If etcd is unreachable, assumes that
 * no other host is. */
int mover_check_lock(const struct mover_move *move, GError **err);

/* Releases the cluster's lock after the move has ended. */
void mover_unlock(const struct mover_move *move);

/* resume.c */

/* Restores a move from the journal's record, so that its state machine knows each executed verb and
 * its outcome. */
struct mover_move *mover_replay(vg_mover *mover, const struct vg_migration *migration);

/* look.c */

/* The state of the VM according to libvirt on both hosts. */
struct mover_views {
    struct vg_domain_look source, target;
    bool source_known, target_known;
};

/* Lists the aliases of the GPUs, for vg_virt_look(). */
GStrv mover_aliases(const struct vg_migration *record);

/* Determines where the VM is, and sets facts and text. Waits for a migration in progress, and ends
 * one that was cancelled. */
void mover_look(struct mover_move *move, struct mover_outcome *ret);

/* Checks at the end that both hosts are in the intended state. */
int mover_verify(struct mover_move *move, struct mover_outcome *ret, GError **err);

/* While a move is being reversed, restores the VM's definition: with its GPUs, and on one host. If
 * something remains on the target that must be removed manually, also returns -1 and sets *err,
 * with the command for that. */
int mover_tidy(struct mover_move *move, struct mover_outcome *ret, GError **err);

/* save.c */

/* Finds a move. Returns NULL if not found. A resumed move exists twice while its first thread is
 * ending; the newer one is returned. Called under the lock. */
struct mover_move *mover_find(vg_mover *mover, const char *id);

/* Finds a queued move. Returns NULL if not found. Called under the lock. */
struct mover_queued *mover_queue_find(vg_mover *mover, const char *id);

/* Returns the current record of an active or queued move, or NULL. Called under the lock. */
const struct vg_migration *mover_find_record(vg_mover *mover, const char *id);

/* Records whether the journal has answered a write that is retried until it succeeds; error is NULL
 * on success. */
void mover_note_answer(vg_mover *mover, const GError *error);

/* Writes the record to the journal. is_bare: the VM may be without its GPUs, and is waiting.
 * Returns -1 if the journal did not accept it; the caller must then not take anything from the VM.
 */
int mover_save(struct mover_move *move, bool is_bare, GError **err);

/* stuck.c */

/* The state of a migration that a LOOK waits for; initially zeroed. Times are CLOCK_MONOTONIC. */
struct mover_stuck {
    int64_t since_ns;     /* when it was first seen */
    int64_t copied_ns;    /* when progress was last seen */
    int64_t copied_bytes; /* number of bytes copied by then */
    bool runs;            /* the VM was running then */
    int64_t off_ns;       /* when it was first cancelled; 0 if not yet */
    int64_t ended_ns;     /* when vgpud last ended the other host's QEMU */
    char *why;            /* why vgpud could not end it; owned */
};

/* Cancels the migration if it is no longer wanted, or if it does not end. If nothing was copied,
 * the migration ends only together with the QEMU that is waiting for it, so this QEMU is ended.
 * Returns true if the VM is running on the target, so that a waiting QEMU on the source is
 * irrelevant. */
bool mover_end_stuck(struct mover_move *move, const struct mover_views *views,
                     struct mover_stuck *stuck);

/* Records what the move is waiting for, and the command that ends the wait. */
void mover_tell_stuck(struct mover_move *move, const struct mover_views *views,
                      const struct mover_stuck *stuck, const char *why);

void mover_stuck_clear(struct mover_stuck *stuck);

/* nova.c */

extern const struct mover_executor mover_nova;

/* paths.c */

/* Adds the obstacles, certain and possible, in the paths (struct vg_path_need) that the VM needs;
 * without a peer, only those on this host. Does not wait for unresponsive file systems. */
void mover_check_paths(struct mover_move *move, const GPtrArray *needs, GPtrArray *problems);

/* queue.c */

/* Create and free the queue. Its moves remain in the journal. */
void mover_queue_init(vg_mover *mover);
void mover_queue_end(vg_mover *mover);

/* Return why a move to a host must wait for its turn, or NULL if it may start now; the caller frees
 * the text. The caller holds `beginning`. A retried move must wait while the maximum number of
 * moves from this host, or to that host including peers' moves, is in progress. A queued move must
 * also wait if another host has precedence. A new move must also wait if other moves are before it
 * in the queue. */
char *mover_queue_why_retry(vg_mover *mover, const char *to);
char *mover_queue_why_turn(vg_mover *mover, const char *to);
char *mover_queue_why(vg_mover *mover, const char *to);

/* Queues a move, once it is in the journal; order is NULL if it is retried. Fails with
 * VG_E_CONFLICT if the queue is full. The caller holds `beginning`. */
int mover_queue_add(vg_mover *mover, struct vg_migration *migration,
                    const struct vg_mover_order *order, const char *why, GError **err);

/* Queues a move that is recorded as queued in the journal. */
void mover_queue_restore(vg_mover *mover, const struct vg_journal_queued *queued);

/* Removes a move from the queue. Returns a copy, which the caller frees, or NULL if not found. If
 * the journal cannot be written, the move never starts and leaves the queue later. Blocks. */
struct vg_migration *mover_queue_abort(vg_mover *mover, const char *id);

/* Ends a move that the caller has marked as busy, so that no other thread removes it, and removes
 * it once its end is in the journal. why: NULL if it is aborted by a user. The caller frees the
 * result. */
struct vg_migration *mover_queue_remove(vg_mover *mover, struct mover_queued *queued,
                                        const char *why, GError **err);

/* Lists copies (struct vg_migration) of the moves that are due for a check. */
GPtrArray *mover_queue_due(vg_mover *mover);

/* Records why the turn of a move has not come yet. */
void mover_queue_note(vg_mover *mover, const char *id, const char *why);

/* Call these under the lock. find_vm returns the move of this VM, or NULL. number sets the
 * position of each move. leave removes a move that was started. */
struct mover_queued *mover_queue_find_vm(vg_mover *mover, const char *uuid);
void mover_queue_number(const vg_mover *mover);
void mover_queue_leave(vg_mover *mover, struct mover_queued *queued);
void mover_queue_add_approvals(vg_mover *mover, GPtrArray *list);
void mover_queue_wake(vg_mover *mover);
void mover_queue_note_end(vg_mover *mover, const char *to); /* a move to it has ended */

/* settings.c */

/* Returns the command for an operator of this host that uses the libvirt of the source or the
 * target. */
char *mover_command(const struct mover_move *move, bool is_target, const char *verb);

/* These functions end vgpud at a point chosen by a test, as if it were killed just before or just
 * after this write. */
void mover_begin_write(vg_mover *mover);
void mover_count_write(vg_mover *mover);

/* reach.c */

/* The maximum time that the target's vgpud may take to answer about a reservation. */
#define MOVER_PEER_NS (10 * VG_NS_PER_S)

/* Returns the URI of a peer's libvirt from this host. Fails with VG_E_REFUSED if it is not
 * configured. */
char *mover_peer_uri(vg_mover *mover, const char *peer, GError **err);

/* Return the move's connections, opening them if necessary. Return NULL and set *err on failure. */
vg_virt_link *mover_source(struct mover_move *move, GError **err);
vg_virt_link *mover_target(struct mover_move *move, GError **err);

/* Returns the limits of a verb that starts now. Its progress is written to the record. */
struct vg_verb mover_verb(struct mover_move *move, int64_t limit_ns);

/* Queries the guest whether it could release the GPUs now, and records its programs. */
void mover_check_programs(struct mover_move *move, GPtrArray *problems);

/* Adds the problem that the guest's agent does not answer. */
void mover_add_silence(GPtrArray *problems, const char *why);

/* Ends a precheck. Creates an error from the problems, or reports success with any doubts. */
int mover_refuse(const struct mover_move *move, const GPtrArray *problems,
                 struct mover_outcome *ret, GError **err);

/* prepare.c */

/* Returns the id of the move that has the VM now, a move of this vgpud or, according to a
 * reservation here, of another vgpud; queued moves do not count. Returns NULL if no move has it;
 * the caller frees it. */
char *mover_find_move(vg_mover *mover, const char *uuid);

/* The first function waits until no other thread has a request to this guest, and prevents other
 * threads from sending one. The second allows this again. */
void mover_begin_asking(vg_mover *mover, const char *uuid);
void mover_end_asking(vg_mover *mover, const char *uuid);

/* share.c */

/* Where a VM's programs will run. */
struct mover_goal {
    const char *vm, *uuid;
    const char *place; /* "proxy:tcp:HOST:PORT" etc.; NULL for nowhere */
    int64_t bytes;     /* GPU memory that the programs use; -1 for the sum of what they use on other
                          proxies */
};

/* The memory that is reserved for the programs. */
struct mover_share {
    char *id;      /* owned; NULL if nothing is reserved */
    char *peer;    /* owned: the peer with the proxy; NULL for a proxy on this host */
    int64_t bytes; /* the GPU memory that they have; 0 if unknown */
};

/* Makes the proxy at the place reserve as much GPU memory as the programs use. Fails with
 * VG_E_CONFLICT if the proxy has too little memory, and states the amount. Succeeds if no
 * reservation is possible there. Blocks. */
int mover_keep_share(vg_mover *mover, const vg_move_settings *settings,
                     const struct mover_goal *goal, struct mover_share *ret, GError **err);

/* Ends the reservation after the programs have connected, or if they will not connect. Blocks. */
void mover_leave_share(vg_mover *mover, const vg_move_settings *settings,
                       struct mover_share *share);

#endif
