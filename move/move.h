/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides how a VM with its GPUs gets from one host to another: given what is known, it says what
 * to do next. Pure: no I/O, no clock, no thread. The driver of a move asks for the next verb, has
 * it done, and reports the outcome. A verb that failed may have done its work all the same, so the
 * next verb is then LOOK, which finds out where everything is.
 *
 * A move has a goal. It goes forward until a step fails or somebody aborts it, and then back. If
 * the VM already runs on the target, it only goes back if it cannot get its GPUs there. A move
 * always ends: each verb is tried a fixed number of times. A move that has failed can be taken up
 * again, to finish what it left undone.
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
    VG_MOVE_REVIVE,   /* have the guest take up its GPUs on the source */
    VG_MOVE_TIDY,     /* have the VM defined as before, on one host, with its GPUs */
    VG_MOVE_RELEASE,  /* give up the reservation */
    VG_MOVE_VERB_MAX  /* no verb: the move has ended */
};

extern const char *const vg_move_verb_names[]; /* "look", "precheck", ... */

/* Returns -1 if there is no verb of this name. */
int vg_move_verb_from_name(const char *name);

/* Returns how long a verb may take, in nanoseconds, unless that is configured. */
int64_t vg_move_deadline_ns(enum vg_move_verb verb);

struct vg_move_facts {
    enum vg_migration_place place;
    enum vg_migration_gpu gpu; /* the state of the VM's GPUs, where the VM is */
    bool final;                /* the place is not known, and another look would not help */
};

struct vg_move {
    /* These are given at the start. */
    bool has_gpus;
    bool has_agent;
    bool native; /* QEMU takes the GPUs along: they stay in the VM, and the guest knows nothing */
    bool tidies; /* the move keeps the VM's definitions right; true unless set otherwise */

    struct vg_move_facts facts;
    bool looked;  /* facts are true, as far as is known */
    bool back;    /* the goal is to go back */
    bool aborted; /* somebody aborted the move */
    bool failed;  /* a step has failed */
    bool ended;
    bool asked[VG_MOVE_VERB_MAX]; /* the verb has been tried */
    bool done[VG_MOVE_VERB_MAX];  /* the verb has succeeded, and was not undone since */
    unsigned failures[VG_MOVE_VERB_MAX];
    unsigned passing[VG_MOVE_VERB_MAX]; /* failures whose cause may pass, which do not count yet */
    bool guest_as_before;               /* quiescing failed, and the guest has undone it */
    unsigned waits;                     /* looks that found a migration under way */
    enum vg_move_verb running;          /* VERB_MAX if there is none */
    enum vg_migration_state shown;
};

/* Starts a new move. */
void vg_move_init(struct vg_move *move, bool has_gpus, bool has_agent);

/* Resume a move that was under way when its driver ended. vg_move_replay() reports each verb that
 * was asked for, in the order of the journal; then the move goes on with a look. If the VM is on
 * the source then, it goes back. */
void vg_move_replay(struct vg_move *move, enum vg_move_verb verb, bool ended, bool ok);
void vg_move_recover(struct vg_move *move);

/* Resumes a move that has ended as FAILED, with a look. On the target, it then goes forward, or
 * back if no GPU is to be had there; on the source, it goes back. Every verb may fail as often as
 * in a new move. */
void vg_move_retry(struct vg_move *move);

/* Returns the next verb, or VERB_MAX if the move has ended. The caller must report the outcome
 * before it asks again. */
enum vg_move_verb vg_move_next(struct vg_move *move);

/* Reports the outcome of the verb that vg_move_next() returned. facts: those of a LOOK that
 * succeeded, otherwise NULL. */
void vg_move_told(struct vg_move *move, bool ok, const struct vg_move_facts *facts);

/* Reports that the verb has failed, and that the cause may pass by itself, like a host that does
 * not answer. Attaching on the target, returning and verifying are then tried again a few times,
 * before the move takes another way; any other verb has failed. */
void vg_move_told_passing(struct vg_move *move);

/* Reports that the verb has failed, and that another try cannot succeed. It is tried again only
 * after vg_move_retry(). */
void vg_move_told_final(struct vg_move *move);

/* Reports that the guest, when it was asked to let go of its GPUs, did not, and is as it was
 * before. */
void vg_move_guest_as_before(struct vg_move *move);

/* Turn the move back, because it cannot reach its goal, or because somebody wants that. Return
 * false if it is too late, or if the move goes back or has ended already. The verb that runs should
 * be cancelled; its outcome is reported as usual. */
bool vg_move_turn_back(struct vg_move *move);
bool vg_move_abort(struct vg_move *move);

/* Returns the state to show to people: the present step, or how the move has ended. */
enum vg_migration_state vg_move_state(const struct vg_move *move);

#endif
