/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "move/move.h"

#include <string.h>

#define S INT64_C(1000000000)

#define WAITS_MAX 100

/* The maximum number of attempts if the cause of a failure is temporary. */
#define PASSING_MAX 4

/* The verbs, each with its state on the way forward, its time limit, and its maximum number of
 * failures. */
static const struct {
    const char *name;
    enum vg_migration_state state;
    int64_t deadline_ns;
    unsigned tries;
} verbs[] = {
    /* A host that does not answer is queried for some minutes, as it may be restarting. */
    [VG_MOVE_LOOK] = {"look", VG_MIGRATION_STATE_MAX, 30 * S, 10},
    [VG_MOVE_PRECHECK] = {"precheck", VG_MIGRATION_PRECHECKING, 30 * S, 1},
    [VG_MOVE_RESERVE] = {"reserve", VG_MIGRATION_RESERVING, 15 * S, 1},
    [VG_MOVE_QUIESCE] = {"quiesce", VG_MIGRATION_QUIESCING, 120 * S, 1},
    /* Native PCIe hot-unplug alone takes 6 s. */
    [VG_MOVE_DETACH] = {"detach", VG_MIGRATION_DETACHING, 40 * S, 1},
    [VG_MOVE_MIGRATE] = {"migrate", VG_MIGRATION_MIGRATING, 1800 * S, 1},
    [VG_MOVE_ATTACH] = {"attach", VG_MIGRATION_ATTACHING, 30 * S, 1},
    [VG_MOVE_RESUME] = {"resume", VG_MIGRATION_RESUMING, 120 * S, 2},
    [VG_MOVE_VERIFY] = {"verify", VG_MIGRATION_VERIFYING, 30 * S, 1},
    [VG_MOVE_RETURN] = {"return", VG_MIGRATION_ROLLING_BACK, 1800 * S, 1},
    [VG_MOVE_REATTACH] = {"reattach", VG_MIGRATION_ROLLING_BACK, 30 * S, 3},
    [VG_MOVE_REVIVE] = {"revive", VG_MIGRATION_ROLLING_BACK, 120 * S, 3},
    [VG_MOVE_TIDY] = {"tidy", VG_MIGRATION_STATE_MAX, 30 * S, 2},
    [VG_MOVE_RELEASE] = {"release", VG_MIGRATION_STATE_MAX, 15 * S, 3},
};

const char *const vg_move_verb_names[] = {
    [VG_MOVE_LOOK] = "look",       [VG_MOVE_PRECHECK] = "precheck", [VG_MOVE_RESERVE] = "reserve",
    [VG_MOVE_QUIESCE] = "quiesce", [VG_MOVE_DETACH] = "detach",     [VG_MOVE_MIGRATE] = "migrate",
    [VG_MOVE_ATTACH] = "attach",   [VG_MOVE_RESUME] = "resume",     [VG_MOVE_VERIFY] = "verify",
    [VG_MOVE_RETURN] = "return",   [VG_MOVE_REATTACH] = "reattach", [VG_MOVE_REVIVE] = "revive",
    [VG_MOVE_TIDY] = "tidy",       [VG_MOVE_RELEASE] = "release",   [VG_MOVE_VERB_MAX] = NULL,
};

int
vg_move_verb_from_name(const char *name)
{
    for (int i = 0; i < VG_MOVE_VERB_MAX; i++) {
        if (strcmp(verbs[i].name, name) == 0)
            return i;
    }
    return -1;
}

int64_t
vg_move_deadline_ns(enum vg_move_verb verb)
{
    return verbs[verb].deadline_ns;
}

void
vg_move_init(struct vg_move *move, bool has_gpus, bool has_agent)
{
    *move = (struct vg_move){
        .has_gpus = has_gpus,
        .has_agent = has_agent,
        .tidies = true,
        .running = VG_MOVE_VERB_MAX,
        .shown = VG_MIGRATION_PENDING,
    };
}

static bool
move_is_out_of_tries(const struct vg_move *move, enum vg_move_verb verb)
{
    return move->failures[verb] >= verbs[verb].tries;
}

/* Returns whether the move has changed the VM, so that a failure must be undone. */
static bool
move_has_touched(const struct vg_move *move)
{
    return move->asked[VG_MOVE_QUIESCE] || move->asked[VG_MOVE_DETACH] ||
           move->asked[VG_MOVE_MIGRATE];
}

/* Returns whether the guest may have released its GPUs: it has received the request, and has not
 * reported that nothing changed. */
static bool
move_guest_waits(const struct vg_move *move)
{
    return move->has_agent && move->has_gpus && move->asked[VG_MOVE_QUIESCE] &&
           !move->guest_as_before;
}

/* Returns whether a verb has failed and not succeeded since then. */
static bool
move_has_failed(const struct vg_move *move, enum vg_move_verb verb)
{
    return move->failures[verb] > 0 && !move->done[verb];
}

/* Returns whether the target has no GPU for the VM. */
static bool
move_finds_no_gpu(const struct vg_move *move)
{
    return move->failures[VG_MOVE_RESERVE] > 0 || move->failures[VG_MOVE_ATTACH] > 0;
}

/* ---- the next verb ---- */

static enum vg_move_verb
move_end(struct vg_move *move)
{
    move->ended = true;
    return VG_MOVE_VERB_MAX;
}

static enum vg_move_verb
move_release_and_end(struct vg_move *move)
{
    if (move->asked[VG_MOVE_RESERVE] && !move->done[VG_MOVE_RELEASE] &&
        !move_is_out_of_tries(move, VG_MOVE_RELEASE))
        return VG_MOVE_RELEASE;
    return move_end(move);
}

/* Ends the move, after tidying up the VM's definitions: a failed move may leave them changed. */
static enum vg_move_verb
move_tidy_and_end(struct vg_move *move)
{
    if (move->tidies && (move->asked[VG_MOVE_DETACH] || move->asked[VG_MOVE_MIGRATE]) &&
        !move->done[VG_MOVE_TIDY] && !move_is_out_of_tries(move, VG_MOVE_TIDY))
        return VG_MOVE_TIDY;
    return move_release_and_end(move);
}

static enum vg_move_verb
move_forward_from_source(const struct vg_move *move)
{
    if (!move->done[VG_MOVE_PRECHECK])
        return VG_MOVE_PRECHECK;
    if (move->has_gpus && !move->done[VG_MOVE_RESERVE])
        return VG_MOVE_RESERVE;
    /* The guest continues to use its GPUs. */
    if (move->native)
        return VG_MOVE_MIGRATE;
    if (move->has_gpus && move->has_agent && !move->done[VG_MOVE_QUIESCE])
        return VG_MOVE_QUIESCE;
    if (move->has_gpus && move->facts.gpu != VG_GPU_DETACHED)
        return VG_MOVE_DETACH;
    return VG_MOVE_MIGRATE;
}

/* Chooses the next verb after the VM has arrived. A failure to resume the guest or to verify the
 * host is no reason to move the VM again. */
static enum vg_move_verb
move_on_target(struct vg_move *move)
{
    if (move->has_gpus && move->facts.gpu != VG_GPU_ATTACHED)
        return move->done[VG_MOVE_RESERVE] ? VG_MOVE_ATTACH : VG_MOVE_RESERVE;
    if (move_guest_waits(move) && !move->done[VG_MOVE_RESUME] &&
        !move_is_out_of_tries(move, VG_MOVE_RESUME))
        return VG_MOVE_RESUME;
    if (!move->done[VG_MOVE_VERIFY] && !move_is_out_of_tries(move, VG_MOVE_VERIFY))
        return VG_MOVE_VERIFY;
    return move_release_and_end(move);
}

static enum vg_move_verb
move_back_on_source(struct vg_move *move)
{
    if (move->has_gpus && move->facts.gpu != VG_GPU_ATTACHED &&
        !move_is_out_of_tries(move, VG_MOVE_REATTACH))
        return VG_MOVE_REATTACH;
    if (move_guest_waits(move) && move->facts.gpu == VG_GPU_ATTACHED &&
        !move->done[VG_MOVE_REVIVE] && !move_is_out_of_tries(move, VG_MOVE_REVIVE))
        return VG_MOVE_REVIVE;
    return move_tidy_and_end(move);
}

static enum vg_move_verb
move_back_from_target(struct vg_move *move)
{
    /* Some of the GPUs may be attached. */
    if (move->facts.gpu == VG_GPU_PARTLY && !move_is_out_of_tries(move, VG_MOVE_DETACH))
        return VG_MOVE_DETACH;
    if (move->facts.gpu == VG_GPU_DETACHED && !move_is_out_of_tries(move, VG_MOVE_RETURN))
        return VG_MOVE_RETURN;
    return move_tidy_and_end(move);
}

static enum vg_move_verb
move_choose(struct vg_move *move)
{
    if (!move->looked)
        return move_is_out_of_tries(move, VG_MOVE_LOOK) ? move_end(move) : VG_MOVE_LOOK;
    switch (move->facts.place) {
    case VG_PLACE_SOURCE:
        return move->back ? move_back_on_source(move) : move_forward_from_source(move);
    case VG_PLACE_TARGET:
        return move->back ? move_back_from_target(move) : move_on_target(move);
    case VG_PLACE_NOWHERE:
        move->failed = true;
        return move_tidy_and_end(move);
    case VG_PLACE_BOTH:
    case VG_PLACE_UNKNOWN:
    case VG_PLACE_MOVING:
    case VG_PLACE_MAX:
    default:
        move->failed = true;
        return move_end(move);
    }
}

enum vg_move_verb
vg_move_next(struct vg_move *move)
{
    if (move->ended)
        return VG_MOVE_VERB_MAX;
    move->running = move_choose(move);
    if (move->ended)
        return VG_MOVE_VERB_MAX;
    move->asked[move->running] = true;
    if (move->back)
        move->shown = VG_MIGRATION_ROLLING_BACK;
    else if (verbs[move->running].state != VG_MIGRATION_STATE_MAX)
        move->shown = verbs[move->running].state;
    return move->running;
}

/* ---- outcomes ---- */

/* Records the place of the VM and its GPUs, and chooses the direction. */
static void
move_take_facts(struct vg_move *move, const struct vg_move_facts *facts)
{
    move->facts = *facts;
    move->looked =
        facts->final || (facts->place != VG_PLACE_MOVING && facts->place != VG_PLACE_UNKNOWN);
    if (!move->looked) {
        /* The move waits for a migration that continues independently, but not indefinitely. */
        if (facts->place == VG_PLACE_UNKNOWN || ++move->waits > WAITS_MAX)
            move->failures[VG_MOVE_LOOK]++;
        return;
    }
    move->failures[VG_MOVE_LOOK] = 0;
    if (facts->place == VG_PLACE_TARGET && move->back && !move_finds_no_gpu(move))
        move->back = false; /* it was too late to turn back */
    else if (facts->place == VG_PLACE_TARGET && move_finds_no_gpu(move) &&
             facts->gpu != VG_GPU_ATTACHED)
        move->back = true;
    else if (facts->place == VG_PLACE_SOURCE && (move->failed || move->aborted))
        move->back = true;
}

/* Records the effects of a verb that has succeeded. */
static void
move_take_success(struct vg_move *move, enum vg_move_verb verb)
{
    move->done[verb] = true;
    switch (verb) {
    case VG_MOVE_DETACH:
        move->facts.gpu = VG_GPU_DETACHED;
        move->done[VG_MOVE_TIDY] = false;
        break;
    case VG_MOVE_MIGRATE:
        move->facts.place = VG_PLACE_TARGET;
        if (!move_finds_no_gpu(move))
            move->back = false;
        break;
    case VG_MOVE_RETURN:
        move->facts.place = VG_PLACE_SOURCE;
        move->done[VG_MOVE_TIDY] = false;
        break;
    case VG_MOVE_ATTACH:
    case VG_MOVE_REATTACH:
        move->facts.gpu = VG_GPU_ATTACHED;
        break;
    case VG_MOVE_LOOK:
    case VG_MOVE_PRECHECK:
    case VG_MOVE_RESERVE:
    case VG_MOVE_QUIESCE:
    case VG_MOVE_RESUME:
    case VG_MOVE_VERIFY:
    case VG_MOVE_REVIVE:
    case VG_MOVE_TIDY:
    case VG_MOVE_RELEASE:
    case VG_MOVE_VERB_MAX:
    default:
        break;
    }
}

static void
move_take_failure(struct vg_move *move, enum vg_move_verb verb)
{
    move->failures[verb]++;
    /* A reservation expires automatically. A failed look is not a failure of the move. */
    if (verb != VG_MOVE_RELEASE && verb != VG_MOVE_LOOK)
        move->failed = true;
    move->looked = false;
}

void
vg_move_report(struct vg_move *move, bool ok, const struct vg_move_facts *facts)
{
    const enum vg_move_verb verb = move->running;

    move->running = VG_MOVE_VERB_MAX;
    if (!ok)
        move_take_failure(move, verb);
    else if (verb == VG_MOVE_LOOK)
        move_take_facts(move, facts);
    else
        move_take_success(move, verb);
}

void
vg_move_failed_for_now(struct vg_move *move)
{
    const enum vg_move_verb verb = move->running;
    const bool is_repeated =
        verb == VG_MOVE_ATTACH || verb == VG_MOVE_RETURN || verb == VG_MOVE_VERIFY;

    move->running = VG_MOVE_VERB_MAX;
    if (!is_repeated || ++move->passing[verb] >= PASSING_MAX)
        move_take_failure(move, verb);
    move->looked = false;
}

void
vg_move_failed_finally(struct vg_move *move)
{
    const enum vg_move_verb verb = move->running;

    move->running = VG_MOVE_VERB_MAX;
    move_take_failure(move, verb);
    move->failures[verb] = verbs[verb].tries;
}

void
vg_move_guest_as_before(struct vg_move *move)
{
    move->guest_as_before = true;
}

/* ---- turning back, resuming after a restart ---- */

bool
vg_move_turn_back(struct vg_move *move)
{
    if (move->ended || move->back || move->done[VG_MOVE_MIGRATE] ||
        (move->looked && move->facts.place == VG_PLACE_TARGET))
        return false;
    move->failed = true;
    move->back = true;
    return true;
}

bool
vg_move_abort(struct vg_move *move)
{
    const bool had_failed = move->failed;

    if (!vg_move_turn_back(move))
        return false;
    move->failed = had_failed;
    move->aborted = true;
    return true;
}

void
vg_move_replay(struct vg_move *move, enum vg_move_verb verb, bool ended, bool ok)
{
    move->asked[verb] = true;
    move->running = verb;
    if (verb == VG_MOVE_LOOK) {
        move->running = VG_MOVE_VERB_MAX;
        return;
    }
    /* A verb that was interrupted may have succeeded or not. It counts as failed, but not as an
     * attempt. */
    if (ended)
        vg_move_report(move, ok, NULL);
    move->running = VG_MOVE_VERB_MAX;
}

void
vg_move_recover(struct vg_move *move)
{
    move->looked = false;
    move->failed = true;
}

void
vg_move_retry(struct vg_move *move)
{
    memset(move->failures, 0, sizeof(move->failures));
    memset(move->passing, 0, sizeof(move->passing));
    /* The reservation was released, and the definitions may need tidying again. */
    move->done[VG_MOVE_RESERVE] = false;
    move->done[VG_MOVE_RELEASE] = false;
    move->done[VG_MOVE_TIDY] = false;
    move->ended = false;
    move->aborted = false;
    move->back = false;
    move->waits = 0;
    vg_move_recover(move);
}

enum vg_migration_state
vg_move_state(const struct vg_move *move)
{
    const bool as_it_was = move->facts.place == VG_PLACE_SOURCE && move->looked &&
                           (!move->has_gpus || move->facts.gpu == VG_GPU_ATTACHED) &&
                           !move_has_failed(move, VG_MOVE_REVIVE);

    if (!move->ended)
        return move->shown;
    if (as_it_was && move->aborted)
        return VG_MIGRATION_ABORTED;
    if (as_it_was)
        return move_has_touched(move) ? VG_MIGRATION_ROLLED_BACK : VG_MIGRATION_FAILED;
    if (move->facts.place == VG_PLACE_TARGET && move->looked && !move->back &&
        !move_has_failed(move, VG_MOVE_RESUME) && !move_has_failed(move, VG_MOVE_VERIFY))
        return VG_MIGRATION_DONE;
    return VG_MIGRATION_FAILED;
}
