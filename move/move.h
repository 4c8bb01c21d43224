/* SPDX-License-Identifier: Apache-2.0
 *
 * How a VM with its GPUs gets from one host to another: what is to be done next, given what is
 * known to be true. Pure: no I/O, no clock, no thread. Whoever drives a move asks for the next
 * verb, has it done, and tells what came of it; a verb that failed may have done its work all the
 * same, so the next one is then LOOK, which tells where everything is.
 *
 * A move has a goal. It goes forward until a step fails or somebody aborts it, and then back,
 * unless the VM already runs on the target: from there it only goes back if it cannot get its GPUs.
 * It always ends: each verb is tried a fixed number of times.
 */
#ifndef VG_MOVE_MOVE_H
#define VG_MOVE_MOVE_H

#include <stdbool.h>
#include <stdint.h>

#include "model/migration.h"

enum vg_move_verb {
    VG_MOVE_LOOK, /* where is the VM, and has it its GPUs? */
    VG_MOVE_PRECHECK,
    VG_MOVE_RESERVE,
    VG_MOVE_QUIESCE,
    VG_MOVE_DETACH,
    VG_MOVE_MIGRATE,
    VG_MOVE_ATTACH,
    VG_MOVE_RESUME,
    VG_MOVE_VERIFY,
    VG_MOVE_RETURN,   /* migrate from the target back to the source */
    VG_MOVE_REATTACH, /* the source's GPUs, on the source */
    VG_MOVE_REVIVE,   /* have the guest take them up on the source */
    VG_MOVE_RELEASE,  /* what was reserved */
    VG_MOVE_VERB_MAX  /* none: the move has ended */
};

extern const char *const vg_move_verb_names[]; /* "look", "precheck", ... */

/* -1: there is none of this name. */
int vg_move_verb_from_name(const char *name);

/* How long a verb may take, in nanoseconds, where nobody has configured it. */
int64_t vg_move_deadline_ns(enum vg_move_verb verb);

struct vg_move_facts {
    enum vg_migration_place place;
    enum vg_migration_gpu gpu; /* of the VM, where it is */
    bool final;                /* the place is unknown, and looking again would tell no more */
};

struct vg_move {
    /* Told at the start. */
    bool has_gpus;
    bool has_agent;

    struct vg_move_facts facts;
    bool looked;  /* facts are true, as far as anybody knows */
    bool back;    /* the goal */
    bool aborted; /* by somebody */
    bool failed;  /* a step did */
    bool ended;
    bool asked[VG_MOVE_VERB_MAX]; /* at least once */
    bool done[VG_MOVE_VERB_MAX];  /* with success, and not undone since */
    unsigned failures[VG_MOVE_VERB_MAX];
    bool guest_as_before;      /* quiescing failed, and the guest has undone it */
    unsigned waits;            /* looks that found a migration under way */
    enum vg_move_verb running; /* VERB_MAX: none */
    enum vg_migration_state shown;
};

/* A new move. */
void vg_move_init(struct vg_move *move, bool has_gpus, bool has_agent);

/* One that was under way when its driver ended: what was asked of it, in the order of the journal,
 * is told by vg_move_replay(), and then it goes on with a look. If the VM is on the source then, it
 * goes back. */
void vg_move_replay(struct vg_move *move, enum vg_move_verb verb, bool ended, bool ok);
void vg_move_recover(struct vg_move *move);

/* What is to be done now; VERB_MAX: nothing, the move has ended. The caller must then tell what
 * came of it before it asks again. */
enum vg_move_verb vg_move_next(struct vg_move *move);

/* The verb that vg_move_next() told has ended. facts: of LOOK that is ok, else NULL. */
void vg_move_told(struct vg_move *move, bool ok, const struct vg_move_facts *facts);

/* The guest said, when it was asked to let go of its GPUs, that it did not and is as it was before.
 */
void vg_move_guest_as_before(struct vg_move *move);

/* Turns back. false: it is too late, or the move goes back or has ended already. The verb that runs
 * should be cancelled; it is told as always. */
bool vg_move_abort(struct vg_move *move);

/* For people: what it is at, or how it has ended. */
enum vg_migration_state vg_move_state(const struct vg_move *move);

#endif
