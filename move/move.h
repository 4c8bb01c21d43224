/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides how a VM with its GPUs gets from one host to another: given the known facts, it
 * determines the next action. Pure: no I/O, no clock, no thread. The driver of a move requests the
 * next verb, executes it, and reports the outcome. A verb that failed may still have had its
 * effect, so the next verb is then LOOK, which determines where everything is.
 *
 * A move has a goal. It goes forward until a step fails or a user aborts it, and then back. If the
 * VM already runs on the target, it only goes back if it cannot get its GPUs there. A move always
 * ends, because each verb is tried a fixed number of times. A failed move can be resumed, to finish
 * what it left undone.
 */
#ifndef VG_MOVE_MOVE_H
#define VG_MOVE_MOVE_H

#include <stdbool.h>
#include <stdint.h>

#include "model/migration.h"

enum vg_move_verb {
    VG_MOVE_LOOK, /* find out where the VM is, and whether it has its GPUs */
    VG_MOVE_PRECHECK,
    VG_MOVE_RESERVE,
    VG_MOVE_QUIESCE,
    VG_MOVE_DETACH,
    VG_MOVE_MIGRATE,
    VG_MOVE_ATTACH,
    VG_MOVE_RESUME,
    VG_MOVE_VERIFY,
    VG_MOVE_RETURN,   /* migrate the VM from the target back to the source */
    VG_MOVE_REATTACH, /* give the source's GPUs back to the VM on the source */
    VG_MOVE_REVIVE,   /* have the guest resume the use of its GPUs on the source */
    VG_MOVE_TIDY,     /* restore the VM's definition, on one host, with its GPUs */
    VG_MOVE_RELEASE,  /* release the reservation */
    VG_MOVE_VERB_MAX  /* no verb: the move has ended */
};

extern const char *const vg_move_verb_names[]; /* "look", "precheck", ... */

/* Returns -1 if no verb has this name. */
int vg_move_verb_from_name(const char *name);

/* Returns the time limit of a verb in nanoseconds, for verbs without a configured limit. */
int64_t vg_move_deadline_ns(enum vg_move_verb verb);

struct vg_move_facts {
    enum vg_migration_place place;
    enum vg_migration_gpu gpu; /* the state of the VM's GPUs, where the VM is */
    bool final;                /* the place is unknown, and another check would not help */
};

struct vg_move {
    /* Set at the start. */
    bool has_gpus;
    bool has_agent;
    bool native; /* QEMU transfers the GPUs: they stay in the VM, and the guest does not notice */
    bool tidies; /* the move keeps the VM's definitions consistent; true unless changed */

    struct vg_move_facts facts;
    bool looked;  /* facts are correct, as far as known */
    bool back;    /* the goal is to go back */
    bool aborted; /* a user aborted the move */
    bool failed;  /* a step has failed */
    bool ended;
    bool asked[VG_MOVE_VERB_MAX]; /* the verb was tried */
    bool done[VG_MOVE_VERB_MAX];  /* the verb succeeded, and has not been undone since */
    unsigned failures[VG_MOVE_VERB_MAX];
    unsigned passing[VG_MOVE_VERB_MAX]; /* failures whose cause may be temporary, and which do not
                                         * count yet */
    bool guest_as_before;      /* quiescing failed, and the guest has restored its previous state */
    unsigned waits;            /* number of checks that found a migration in progress */
    enum vg_move_verb running; /* VERB_MAX if no verb is running */
    enum vg_migration_state shown;
};

/* Starts a new move. */
void vg_move_init(struct vg_move *move, bool has_gpus, bool has_agent);

/* Resume a move that was in progress when its driver ended. vg_move_replay() reports each requested
 * verb, in the order of the journal. After vg_move_recover(), the move continues with a LOOK. If
 * the VM is then on the source, the move goes back. */
void vg_move_replay(struct vg_move *move, enum vg_move_verb verb, bool ended, bool ok);
void vg_move_recover(struct vg_move *move);

/* Resumes a move that has ended as FAILED, with a LOOK. On the target, it goes forward, or back if
 * no GPU is available there. On the source, it goes back. Every verb may fail as often as in a new
 * move. */
void vg_move_retry(struct vg_move *move);

/* Returns the next verb, or VERB_MAX if the move has ended. The caller must report the outcome
 * before the next call. */
enum vg_move_verb vg_move_next(struct vg_move *move);

/* Reports the outcome of the verb that vg_move_next() returned. facts: the result of a successful
 * LOOK, otherwise NULL. */
void vg_move_report(struct vg_move *move, bool ok, const struct vg_move_facts *facts);

/* Reports that the verb has failed, and that the cause may be temporary, such as a host that does
 * not answer. Attaching on the target, returning and verifying are then retried a few times before
 * the move takes another path. Any other verb has failed. */
void vg_move_failed_for_now(struct vg_move *move);

/* Reports that the verb has failed, and that another attempt cannot succeed. It is only tried again
 * after vg_move_retry(). */
void vg_move_failed_finally(struct vg_move *move);

/* Reports that the guest did not release its GPUs as requested, and has restored its previous
 * state. */
void vg_move_guest_as_before(struct vg_move *move);

/* Make the move go back, because it cannot reach its goal, or at a user's request. Return false if
 * it is too late, or if the move is already going back or has ended. The running verb should be
 * cancelled; its outcome is reported as usual. */
bool vg_move_turn_back(struct vg_move *move);
bool vg_move_abort(struct vg_move *move);

/* Returns the state to show to users: the present step, or how the move ended. */
enum vg_migration_state vg_move_state(const struct vg_move *move);

#endif
