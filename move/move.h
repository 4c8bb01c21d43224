/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides how a VM with its GPUs gets from one host to another: given the known facts, it
 * determines the next action. Pure: no I/O, no clock, no thread. The driver of a move requests the
 * next verb, executes it, and reports the outcome. A verb that failed may still have had its
 * effect, so the next verb is then LOOK, which determines where everything is.
 *
 * A move has a goal. It proceeds until a step fails or a user aborts it, and is then reversed. If
 * the VM is already running on the target, the move is reversed only if the VM cannot get its GPUs
 * there. A move always ends, because each verb is tried a fixed number of times. A failed move can
 * be resumed, to complete its remaining steps.
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
    VG_MOVE_REATTACH, /* attach the source's GPUs again to the VM on the source */
    VG_MOVE_REVIVE,   /* have the guest resume the use of its GPUs on the source */
    VG_MOVE_TIDY,     /* restore the VM's definition, on one host, with its GPUs */
    VG_MOVE_RELEASE,  /* release the reservation */
    VG_MOVE_VERB_MAX  /* no verb: the move has ended */
};

extern const char *const vg_move_verb_names[]; /* "look", "precheck", ... */

/* Returns the verb with this name, or -1 if no verb has it. */
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
    bool back;    /* the goal is to reverse the move */
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
 * the VM is then on the source, the move is reversed. */
void vg_move_replay(struct vg_move *move, enum vg_move_verb verb, bool ended, bool ok);
void vg_move_recover(struct vg_move *move);

/* Resumes a move that has ended as FAILED, with a LOOK. If the VM is on the target, the move
 * proceeds, or is reversed if no GPU is available there. If the VM is on the source, the move is
 * reversed. Every verb may fail as many times as in a new move. */
void vg_move_retry(struct vg_move *move);

/* Returns the next verb, or VERB_MAX if the move has ended. The caller must report the outcome
 * before the next call. */
enum vg_move_verb vg_move_next(struct vg_move *move);

/* Reports the outcome of the verb that vg_move_next() returned. facts: the result of a successful
 * LOOK, otherwise NULL. */
void vg_move_report(struct vg_move *move, bool ok, const struct vg_move_facts *facts);

/* Reports that the verb has failed, and that the cause may be temporary, such as a host that does
 * not answer. Attaching on the target, returning and verifying are then retried a few times before
 * the move takes another path. Any other verb counts as failed. */
void vg_move_failed_for_now(struct vg_move *move);

/* Reports that the verb has failed, and that another attempt cannot succeed. It is only tried again
 * after vg_move_retry(). */
void vg_move_failed_finally(struct vg_move *move);

/* Reports that the guest did not release its GPUs as requested, and has restored its previous
 * state. */
void vg_move_guest_as_before(struct vg_move *move);

/* Reverse the move, because it cannot reach its goal, or at a user's request. Return false if it is
 * too late, or if the move is already being reversed or has ended. The running verb should be
 * cancelled; its outcome is reported as usual. */
bool vg_move_turn_back(struct vg_move *move);
bool vg_move_abort(struct vg_move *move);

/* Returns the state to show to users: the present step, or how the move ended. */
enum vg_migration_state vg_move_state(const struct vg_move *move);

#endif
