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
    /* held from the checks of a move that begins until it is one of the moves; taken before lock */
    pthread_mutex_t beginning;
    vg_move_settings *settings;
    vg_thread *resuming;   /* waits for the journal to be readable; NULL if there is no need */
    GPtrArray *bare;       /* struct vg_bare_vm, the VMs that are without their GPUs */
    vg_thread *watching;   /* looks whether they get them by hand */
    pthread_cond_t raised; /* signalled when there is such a VM */
    GPtrArray *moves;      /* struct mover_move that have not been forgotten */
    /* UUIDs, owned, of VMs that are asked without a move; protected by the lock */
    GHashTable *asked;
    GHashTable *unkept; /* places, owned, at which no memory could be kept, and that was said */
    pthread_cond_t answered; /* signalled when one of them is no longer asked */
    atomic_uint writes;
    atomic_uint ends;      /* the number of moves that have ended since the start */
    atomic_bool is_silent; /* the journal has not answered when it was last written to */
    bool ending;           /* protected by the lock: no move begins, and none migrates */
    /* The queue, which the lock protects, too. */
    GPtrArray *queue;      /* struct mover_queued, in the order of their turns */
    GHashTable *ended_to;  /* host: int64_t, CLOCK_MONOTONIC, when the last move there ended */
    pthread_cond_t turned; /* signalled when the turn of one may have come */
    bool is_turn;          /* the same for one that does not wait at the moment */
    vg_thread *queueing;   /* begins them; NULL until the queue is started */
    const struct vg_mover_turn *turn; /* how they are prepared */
    void *turn_data;
};

/* A move that waits for its turn. It holds no reservation, no lease and no lock of the cluster. */
struct mover_queued {
    struct vg_migration *record; /* protected by the mover's lock, as are the members below */
    char *request;               /* what was asked for, JSON; NULL: not known */
    char *why;                   /* why it does not begin now, one sentence */
    bool is_busy;                /* it begins, or is being removed */
    bool abort_asked;            /* while it began, or the journal could not be written */
    int64_t refused_ns; /* CLOCK_MONOTONIC, when it could not begin at its turn; 0: it could */
    int64_t again_ns;   /* CLOCK_MONOTONIC, when that is tried again */
};

struct mover_move {
    vg_mover *mover;
    const struct mover_executor *executor;
    vg_move_settings *settings;
    vg_thread *thread;
    vg_thread *renewing; /* renews the reservation, and waits for nothing else */
    atomic_bool cancel;
    atomic_bool leave; /* true once vgpud ends and the next one takes the move up */
    /* true once no more looks are wanted for a VM whose hosts do not answer */
    atomic_bool given_up;
    struct vg_migration *record; /* protected by the lock */
    /* belongs to the thread, except that vg_move_abort() and the state need the lock */
    struct vg_move machine;
    bool ended; /* protected by the lock */
    /* These belong to the thread. */
    bool is_unsaved;  /* the journal did not take the last record */
    bool leaves_left; /* a QEMU that waits for a migration that is over does not end */
    bool called_off;  /* the last migration was, but libvirt may not have ended it yet */
    vg_virt_link *source;
    vg_virt_link *target;
    vg_virt_reboots *reboots; /* of the guest, on both hosts */
    vg_nova *nova;            /* NULL if it is not connected yet, or if libvirt moves the VM */
    GPtrArray *paths;         /* struct vg_path_check, borrowed, of a dry run; NULL: not wanted */
    char *peer_uri;           /* the URI by which this host reaches the target's libvirt */
    int64_t waits_since_ns;   /* CLOCK_MONOTONIC, while record->waits_for is set */
    /* These are about the reservation, which is renewed on any thread. */
    pthread_mutex_t leasing;      /* held while it is renewed; taken before the mover's lock */
    pthread_mutex_t holding;      /* held while that of the source is; taken after leasing */
    _Atomic int64_t renew_ns;     /* CLOCK_MONOTONIC, when it must be renewed; 0 for never */
    int64_t kept_until_ns;        /* the end of the lease, for certain; under leasing */
    struct vg_reservation *given; /* the newest one, if its devices have not been taken over yet */
};

/* The outcome of a verb. */
struct mover_outcome {
    bool ok;
    bool may_pass;              /* the cause of the failure, by itself */
    bool is_final;              /* another try would fail in the same way */
    struct vg_move_facts facts; /* set by LOOK */
    const char *stands;         /* set by LOOK if the VM stands still: why, a constant */
    char *text;                 /* owned */
};

/* The operations in which libvirt and nova differ. The functions block; a move calls them on its
 * own thread. */
struct mover_executor {
    /* Describes in words what a verb asks of whom; the caller frees it. */
    char *(*describe)(const struct mover_move *move, enum vg_move_verb verb);
    /* Runs a verb. Sets the text of *ret and, after a look, its facts. Returns -1 and sets *err if
     * it failed. */
    int (*do_verb)(struct mover_move *move, enum vg_move_verb verb, struct mover_outcome *ret,
                   GError **err);
    /* Adds sentences (char *) about problems; without a peer, only those that this host knows.
     * Returns -1 and sets *err if the problems cannot be found out. */
    int (*find_problems)(struct mover_move *move, GPtrArray *problems, GError **err);
    /* Checks that a peer can be the target. The pointer is NULL if every peer can. */
    int (*check_peer)(vg_mover *mover, const char *peer, GError **err);
    /* Checks that the VM's devices can move with it. gpus: struct vg_move_device, as libvirt has
     * them, or NULL if libvirt has not been asked yet. */
    int (*check_devices)(const struct vg_inv_vm *vm, const GPtrArray *gpus, GError **err);
};

/* mover.c */

/* Returns the table of operations of an executor. */
const struct mover_executor *mover_executor_of(enum vg_migration_executor executor);

/* Frees what has ended, and fails with VG_E_BUSY if no move begins any more. Called while
 * `beginning` is held. */
int mover_check_open(vg_mover *mover, GError **err);

/* Makes a move that has done nothing yet from a copy of the record, and starts its thread. */
struct mover_move *mover_new_move(vg_mover *mover, const struct vg_migration *migration);
int mover_launch(vg_mover *mover, struct mover_move *take_move, GError **err);

/* end.c */

/* Returns whether libvirt or nova does the work of a verb alone, whether vgpud is there or not. */
bool mover_is_left_alone(enum vg_move_verb verb);

/* Has the move's thread end where it is, and record nothing more. */
void mover_leave(struct mover_move *move);

/* bare.c */

/* Records that the move waits, and for what, or that it goes on. The first sentence of a wait is
 * reported as an event. */
void mover_wait(struct mover_move *move, const char *what);
void mover_go_on(struct mover_move *move);

/* Raises or clears the alert of a VM without its GPUs, as the move has ended. Called under the
 * lock. */
void mover_note_end(struct mover_move *move);

/* Raises the alerts of moves that have ended before this vgpud began. moves: struct vg_migration,
 * newest first. */
void mover_note_past(vg_mover *mover, const GPtrArray *moves);

/* Clears that alert, as the VM has been given GPUs. */
void mover_note_gpus(vg_mover *mover, const char *uuid);

/* libvirt.c */

extern const struct mover_executor mover_libvirt;

/* lease.c */

/* Reserves the GPUs: those of the source for the way back, and some of the target. */
int mover_begin_lease(struct mover_move *move, GError **err);

/* Runs the thread that renews the reservation. If the target no longer has it, it is asked for
 * another one; if it cannot give one, the move is turned back unless the VM has switched hosts. */
void mover_renew_run(vg_thread *self, void *arg);

/* Checks, before the VM gets GPUs of the target, that they are reserved for it, and not for another
 * VM. Sets the devices. */
int mover_check_lease(struct mover_move *move, GError **err);

/* Checks the same before the VM gets the source's GPUs again. */
int mover_check_hold(struct mover_move *move, GError **err);

/* Ends the renewals. */
void mover_end_lease(struct mover_move *move);

/* lock.c */

/* Records a move that begins, once no other host of the cluster can begin one of the same VM. order
 * is NULL if it was queued. Called while `beginning` is held. */
int mover_begin_locked(vg_mover *mover, struct vg_migration *migration,
                       const struct vg_mover_order *order, GError **err);

/* Records that a queued move begins. */
int mover_start_queued(vg_mover *mover, const struct vg_migration *migration, GError **err);

/* Refuses to go on if another host of the cluster moves the VM, too. While etcd cannot be asked,
 * nobody else is known to. */
int mover_check_lock(const struct mover_move *move, GError **err);

/* Lets others move the VM again, as the move has ended. */
void mover_unlock(const struct mover_move *move);

/* resume.c */

/* Makes a move from the journal's record, so that its machine knows each verb that was asked for,
 * and the outcome. */
struct mover_move *mover_replay(vg_mover *mover, const struct vg_migration *migration);

/* look.c */

/* What libvirt of both hosts says of the VM. */
struct mover_views {
    struct vg_domain_look source, target;
    bool source_known, target_known;
};

/* Lists the aliases of the GPUs, for vg_virt_look(). */
GStrv mover_aliases(const struct vg_migration *record);

/* Finds out where the VM is, and sets facts and text. Waits for a migration that is under way, and
 * ends one that was called off. */
void mover_look(struct mover_move *move, struct mover_outcome *ret);

/* Checks, when all is done, that both hosts are as they should be. */
int mover_verify(struct mover_move *move, struct mover_outcome *ret, GError **err);

/* Has the VM defined as before on the way back: with its GPUs, and on one host. Returns -1 and sets
 * *err also if the target keeps something that must be removed by hand, with the command that does
 * it. */
int mover_tidy(struct mover_move *move, struct mover_outcome *ret, GError **err);

/* save.c */

/* Finds a move. Returns NULL if it is not here. A resumed move is here twice while its first thread
 * ends; the last one counts. Called under the lock. */
struct mover_move *mover_find(vg_mover *mover, const char *id);

/* Finds a move of the queue. Returns NULL if it is not there. Called under the lock. */
struct mover_queued *mover_queue_find(vg_mover *mover, const char *id);

/* Returns the record of a move that is here or queued, as it is now, or NULL. Called under the
 * lock. */
const struct vg_migration *mover_find_record(vg_mover *mover, const char *id);

/* Notes whether the journal has answered a write that is tried again until it does; error is NULL
 * if it took it. */
void mover_note_answer(vg_mover *mover, const GError *error);

/* Writes the record to the journal. is_bare: the VM may be without its GPUs, and waits. Returns -1
 * if the journal did not take it; the caller must then take nothing from the VM. */
int mover_save(struct mover_move *move, bool is_bare, GError **err);

/* stuck.c */

/* What is known of a migration that a look waits for; zeroed before. Times are of
 * CLOCK_MONOTONIC. */
struct mover_stuck {
    int64_t since_ns;     /* when the look first saw it */
    int64_t copied_ns;    /* when more was last seen to be copied */
    int64_t copied_bytes; /* up to then */
    bool runs;            /* the VM, then */
    int64_t off_ns;       /* when it was first called off; 0 for not yet */
    int64_t ended_ns;     /* when QEMU of the other host was last ended */
    char *why;            /* why that did not work; owned */
};

/* Calls the migration off if nobody wants it any longer, or if it does not come to an end. One that
 * has copied nothing ends only with the QEMU that waits for it, which is then ended. Returns true
 * if the VM runs on the target, and what waits for it on the source does not count. */
bool mover_end_stuck(struct mover_move *move, const struct mover_views *views,
                     struct mover_stuck *stuck);

/* Records for whom the look waits, and the command that ends the waiting. */
void mover_tell_stuck(struct mover_move *move, const struct mover_views *views,
                      const struct mover_stuck *stuck, const char *why);

void mover_stuck_clear(struct mover_stuck *stuck);

/* nova.c */

extern const struct mover_executor mover_nova;

/* paths.c */

/* Adds the problems and the doubts about the paths (struct vg_path_need) that the VM needs; without
 * a peer, only those that this host knows. Waits for no file system that does not answer. */
void mover_check_paths(struct mover_move *move, const GPtrArray *needs, GPtrArray *problems);

/* queue.c */

/* Makes the queue, and frees it: its moves stay in the journal. */
void mover_queue_init(vg_mover *mover);
void mover_queue_end(vg_mover *mover);

/* Return why a move to a host has to wait for its turn, or NULL if it may begin now; the caller
 * frees the text. Called while `beginning` is held. A failed move that is taken up again: as many
 * are under way as the configuration allows, of this host or to that one with those that peers
 * make. One of the queue: also, another host is to have the place. A new one: also, others come
 * first. */
char *mover_queue_why_retry(vg_mover *mover, const char *to);
char *mover_queue_why_turn(vg_mover *mover, const char *to);
char *mover_queue_why(vg_mover *mover, const char *to);

/* Puts a move into the queue, once the journal has it; order is NULL if it is taken up again. Fails
 * with VG_E_CONFLICT if the queue is full. Called while `beginning` is held. */
int mover_queue_add(vg_mover *mover, struct vg_migration *migration,
                    const struct vg_mover_order *order, const char *why, GError **err);

/* Puts a move into the queue that the journal has there. */
void mover_queue_restore(vg_mover *mover, const struct vg_journal_queued *queued);

/* Removes a move from the queue. Returns a copy, which the caller frees, or NULL if it is not
 * there. If the journal cannot be written, the move never begins, and leaves the queue later.
 * Blocks. */
struct vg_migration *mover_queue_abort(vg_mover *mover, const char *id);

/* Ends a move that the caller has marked as busy, so that nobody else removes it, and removes it
 * once the journal has that. why: NULL if somebody aborts it. The caller frees the result. */
struct vg_migration *mover_queue_remove(vg_mover *mover, struct mover_queued *queued,
                                        const char *why, GError **err);

/* Lists copies (struct vg_migration) of the moves that are to be looked at now. */
GPtrArray *mover_queue_due(vg_mover *mover);

/* Notes why a move has no turn now. */
void mover_queue_note(vg_mover *mover, const char *id, const char *why);

/* These are called under the lock. The first one returns the move of this VM, or NULL; number has
 * each move say which place it has; leave removes one that has begun. */
struct mover_queued *mover_queue_find_vm(vg_mover *mover, const char *uuid);
void mover_queue_number(const vg_mover *mover);
void mover_queue_leave(vg_mover *mover, struct mover_queued *queued);
void mover_queue_add_approvals(vg_mover *mover, GPtrArray *list);
void mover_queue_wake(vg_mover *mover);
void mover_queue_note_end(vg_mover *mover, const char *to); /* a move there has ended */

/* settings.c */

/* Writes the command that an operator of this host gives to libvirt of the source or the target. */
char *mover_command(const struct mover_move *move, bool is_target, const char *verb);

/* Each ends vgpud where a test wants it, as if it were killed just before or after this write. */
void mover_begin_write(vg_mover *mover);
void mover_count_write(vg_mover *mover);

/* reach.c */

/* The longest time that the target's vgpud may take to answer about a reservation. */
#define MOVER_PEER_NS (10 * VG_NS_PER_S)

/* Returns the URI by which this host reaches a peer's libvirt. Fails with VG_E_REFUSED if it is not
 * configured. */
char *mover_peer_uri(vg_mover *mover, const char *peer, GError **err);

/* Return the move's connections, and make them if need be. Return NULL and set *err if they cannot
 * be made. */
vg_virt_link *mover_source(struct mover_move *move, GError **err);
vg_virt_link *mover_target(struct mover_move *move, GError **err);

/* Returns the limits of a verb that begins now. Its progress is written to the record. */
struct vg_verb mover_verb(struct mover_move *move, int64_t limit_ns);

/* Asks the guest whether it could release the GPUs now, and records what it says of programs. */
void mover_check_programs(struct mover_move *move, GPtrArray *problems);

/* Adds the problem that the guest's agent does not answer. */
void mover_add_silence(GPtrArray *problems, const char *why);

/* Ends a precheck. Makes an error of the problems, or says that there are none and mentions what is
 * in doubt. */
int mover_refuse(const struct mover_move *move, const GPtrArray *problems,
                 struct mover_outcome *ret, GError **err);

/* prepare.c */

/* Returns the id of the move that has the VM now, whether of this vgpud or, as a reservation here
 * shows, of another one; one that is queued does not have it. Returns NULL if there is none; the
 * caller frees it. */
char *mover_find_move(vg_mover *mover, const char *uuid);

/* Waits until no other thread asks this guest, and keeps others from asking it until the end. */
void mover_begin_asking(vg_mover *mover, const char *uuid);
void mover_end_asking(vg_mover *mover, const char *uuid);

/* share.c */

/* Where programs of a VM are to go on. */
struct mover_goal {
    const char *vm, *uuid;
    const char *place; /* "proxy:tcp:HOST:PORT" and so on; NULL: nowhere */
    int64_t bytes;     /* GPU memory that they have; -1: what they have at other proxies */
};

/* What is kept for them. */
struct mover_share {
    char *id;      /* owned; NULL: nothing */
    char *peer;    /* owned: whose proxy keeps it; NULL: one of this host */
    int64_t bytes; /* the GPU memory that they have; 0: unknown */
};

/* Has the proxy at the place keep as much GPU memory as they have. VG_E_CONFLICT: it has too
 * little, and says what there is. Where none can be kept, that is no error. Blocks. */
int mover_keep_share(vg_mover *mover, const vg_move_settings *settings,
                     const struct mover_goal *goal, struct mover_share *ret, GError **err);

/* They have come, or will not. Blocks. */
void mover_leave_share(vg_mover *mover, const vg_move_settings *settings,
                       struct mover_share *share);

#endif
