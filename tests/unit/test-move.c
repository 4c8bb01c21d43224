/* SPDX-License-Identifier: Apache-2.0
 *
 * The state machine of a move: the way forward, each way back, and that in any world, whatever
 * fails and whenever, it ends, tells the truth and undoes what it did; and that one that has failed
 * is finished when it is taken up again and nothing fails any more.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "move/move.h"
#include "tests/unit/chance.h"

#define STEPS_MAX 400

/* What really is. */
struct world {
    enum vg_migration_place place;
    enum vg_migration_gpu gpu;
    bool reserved;
    bool quiesced;
    bool defined;  /* as before, with its GPU */
    bool leftover; /* of the VM, on the host that it is not on */
};

static const struct world start = {VG_PLACE_SOURCE, VG_GPU_ATTACHED, false, false, true, false};

/* Has the verb its effect in the world? false: it cannot have. */
static bool
world_change(struct world *world, enum vg_move_verb verb)
{
    switch (verb) {
    case VG_MOVE_RESERVE:
        world->reserved = true;
        return true;
    case VG_MOVE_RELEASE:
        world->reserved = false;
        return true;
    case VG_MOVE_QUIESCE:
        world->quiesced = true;
        return true;
    case VG_MOVE_RESUME:
    case VG_MOVE_REVIVE:
        if (world->gpu != VG_GPU_ATTACHED)
            return false;
        world->quiesced = false;
        return true;
    case VG_MOVE_DETACH:
        world->gpu = VG_GPU_DETACHED;
        world->defined = false;
        return true;
    case VG_MOVE_ATTACH:
    case VG_MOVE_REATTACH:
        world->gpu = VG_GPU_ATTACHED;
        world->defined = true;
        return true;
    case VG_MOVE_TIDY:
        world->defined = true;
        world->leftover = false;
        return true;
    case VG_MOVE_MIGRATE:
    case VG_MOVE_RETURN:
        if (world->gpu != VG_GPU_DETACHED)
            return false; /* QEMU refuses it */
        world->place = verb == VG_MOVE_MIGRATE ? VG_PLACE_TARGET : VG_PLACE_SOURCE;
        return true;
    case VG_MOVE_LOOK:
    case VG_MOVE_PRECHECK:
    case VG_MOVE_VERIFY:
    case VG_MOVE_VERB_MAX:
    default:
        return true;
    }
}

/* ---- one failure ---- */

/* Of a verb that fails. HALF: of several GPUs. */
enum effect { NONE, HALF, WHOLE };

/* Runs a move in which one verb fails the first n times. The verbs but the looks,
 * as words. */
static char *
verbs_when(enum vg_move_verb fails, unsigned n, enum effect effect, enum vg_migration_state *ret)
{
    GString *said = g_string_new(NULL);
    struct world world = start;
    struct vg_move move;
    enum vg_move_verb verb;

    vg_move_init(&move, true, true);
    while ((verb = vg_move_next(&move)) != VG_MOVE_VERB_MAX) {
        const bool ok = verb != fails || n == 0;
        if (!ok)
            n--;
        if (ok || effect == WHOLE)
            assert_true(world_change(&world, verb));
        else if (effect == HALF)
            world.gpu = VG_GPU_PARTLY;
        const struct vg_move_facts facts = {.place = world.place, .gpu = world.gpu};
        vg_move_report(&move, ok, ok && verb == VG_MOVE_LOOK ? &facts : NULL);
        if (verb != VG_MOVE_LOOK)
            g_string_append_printf(said, "%s%s", said->len > 0 ? " " : "",
                                   vg_move_verb_names[verb]);
    }
    *ret = vg_move_state(&move);
    return g_string_free(said, FALSE);
}

/* Runs a move to its end, in which the guest answers each order to resume or to revive that the
 * driver has lost a program, unless it is `mended`. */
static char *
verbs_when_lost(struct vg_move *move, struct world *world, enum vg_move_verb fails, bool mended)
{
    GString *said = g_string_new(NULL);
    enum vg_move_verb verb;

    while ((verb = vg_move_next(move)) != VG_MOVE_VERB_MAX) {
        const struct vg_move_facts facts = {.place = world->place, .gpu = world->gpu};
        if (verb != VG_MOVE_LOOK)
            g_string_append_printf(said, "%s%s", said->len > 0 ? " " : "",
                                   vg_move_verb_names[verb]);
        if (!mended && (verb == VG_MOVE_RESUME || verb == VG_MOVE_REVIVE)) {
            vg_move_failed_finally(move);
        } else {
            const bool ok = mended || verb != fails;
            assert_true(!ok || world_change(world, verb));
            vg_move_report(move, ok, verb == VG_MOVE_LOOK ? &facts : NULL);
        }
    }
    return g_string_free(said, FALSE);
}

/* What cannot succeed is not tried again, until somebody asks for that. */
static void
test_final_failure(void **state)
{
    (void)state;
    static const struct {
        enum vg_move_verb fails;
        const char *verbs, *again;
        enum vg_migration_state end;
    } cases[] = {
        {VG_MOVE_VERB_MAX, "precheck reserve quiesce detach migrate attach resume verify release",
         "resume release", VG_MIGRATION_DONE},
        {VG_MOVE_MIGRATE, "precheck reserve quiesce detach migrate reattach revive tidy release",
         "revive tidy release", VG_MIGRATION_ROLLED_BACK},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct world world = start;
        struct vg_move move;
        vg_move_init(&move, true, true);
        g_autofree char *verbs = verbs_when_lost(&move, &world, cases[i].fails, false);
        assert_string_equal(verbs, cases[i].verbs);
        assert_int_equal(vg_move_state(&move), VG_MIGRATION_FAILED);
        vg_move_retry(&move);
        g_autofree char *again = verbs_when_lost(&move, &world, cases[i].fails, true);
        assert_string_equal(again, cases[i].again);
        assert_int_equal(vg_move_state(&move), cases[i].end);
    }
}

static void
test_each_failure(void **state)
{
    (void)state;
#define FORWARD "precheck reserve quiesce detach migrate attach resume verify release"
    static const struct {
        enum vg_move_verb verb;
        unsigned times;
        enum effect effect;
        const char *verbs;
        enum vg_migration_state end;
    } cases[] = {
        {VG_MOVE_VERB_MAX, 0, NONE, FORWARD, VG_MIGRATION_DONE},
        {VG_MOVE_LOOK, 3, NONE, FORWARD, VG_MIGRATION_DONE},
        {VG_MOVE_LOOK, 99, NONE, "", VG_MIGRATION_FAILED},
        {VG_MOVE_PRECHECK, 1, NONE, "precheck", VG_MIGRATION_FAILED},
        {VG_MOVE_RESERVE, 1, NONE, "precheck reserve release", VG_MIGRATION_FAILED},
        {VG_MOVE_QUIESCE, 1, NONE, "precheck reserve quiesce revive release",
         VG_MIGRATION_ROLLED_BACK},
        {VG_MOVE_DETACH, 1, NONE, "precheck reserve quiesce detach revive tidy release",
         VG_MIGRATION_ROLLED_BACK},
        {VG_MOVE_DETACH, 1, WHOLE, "precheck reserve quiesce detach reattach revive tidy release",
         VG_MIGRATION_ROLLED_BACK},
        {VG_MOVE_MIGRATE, 1, NONE,
         "precheck reserve quiesce detach migrate reattach revive tidy release",
         VG_MIGRATION_ROLLED_BACK},
        {VG_MOVE_MIGRATE, 1, WHOLE, FORWARD, VG_MIGRATION_DONE},
        {VG_MOVE_ATTACH, 1, NONE,
         "precheck reserve quiesce detach migrate attach return reattach revive tidy release",
         VG_MIGRATION_ROLLED_BACK},
        {VG_MOVE_ATTACH, 1, WHOLE, FORWARD, VG_MIGRATION_DONE},
        {VG_MOVE_ATTACH, 1, HALF,
         "precheck reserve quiesce detach migrate attach detach return reattach revive tidy "
         "release",
         VG_MIGRATION_ROLLED_BACK},
        {VG_MOVE_DETACH, 1, HALF, "precheck reserve quiesce detach reattach revive tidy release",
         VG_MIGRATION_ROLLED_BACK},
        {VG_MOVE_RESUME, 1, NONE,
         "precheck reserve quiesce detach migrate attach resume resume verify release",
         VG_MIGRATION_DONE},
        {VG_MOVE_RESUME, 9, NONE,
         "precheck reserve quiesce detach migrate attach resume resume verify release",
         VG_MIGRATION_FAILED},
        {VG_MOVE_VERIFY, 1, NONE, FORWARD, VG_MIGRATION_FAILED},
        {VG_MOVE_RELEASE, 2, NONE, FORWARD " release release", VG_MIGRATION_DONE},
        {VG_MOVE_RELEASE, 9, NONE, FORWARD " release release", VG_MIGRATION_DONE},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        enum vg_migration_state end;
        g_autofree char *verbs = verbs_when(cases[i].verb, cases[i].times, cases[i].effect, &end);
        assert_string_equal(verbs, cases[i].verbs);
        assert_int_equal(end, cases[i].end);
    }
}

/* QEMU takes the GPU along: nobody asks the guest or unplugs anything, on the way back neither. If
 * the GPU is gone on the target, it gets one. */
static void
test_native(void **state)
{
    static const struct {
        enum vg_move_verb fails; /* each time; VERB_MAX: nothing */
        enum vg_migration_place place;
        enum vg_migration_gpu gpu; /* what the migration has come to */
        const char *verbs;
        enum vg_migration_state end;
    } cases[] = {
        {VG_MOVE_VERB_MAX, VG_PLACE_TARGET, VG_GPU_ATTACHED,
         "precheck reserve migrate verify release", VG_MIGRATION_DONE},
        {VG_MOVE_RESERVE, VG_PLACE_SOURCE, VG_GPU_ATTACHED, "precheck reserve release",
         VG_MIGRATION_FAILED},
        {VG_MOVE_MIGRATE, VG_PLACE_SOURCE, VG_GPU_ATTACHED, "precheck reserve migrate tidy release",
         VG_MIGRATION_ROLLED_BACK},
        {VG_MOVE_MIGRATE, VG_PLACE_TARGET, VG_GPU_ATTACHED,
         "precheck reserve migrate verify release", VG_MIGRATION_DONE},
        {VG_MOVE_MIGRATE, VG_PLACE_TARGET, VG_GPU_DETACHED,
         "precheck reserve migrate attach verify release", VG_MIGRATION_DONE},
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GString) said = g_string_new(NULL);
        struct vg_move_facts facts = {.place = VG_PLACE_SOURCE, .gpu = VG_GPU_ATTACHED};
        enum vg_move_verb verb;
        struct vg_move move;
        vg_move_init(&move, true, false);
        move.native = true;
        while ((verb = vg_move_next(&move)) != VG_MOVE_VERB_MAX) {
            if (verb == VG_MOVE_MIGRATE)
                facts = (struct vg_move_facts){.place = cases[i].place, .gpu = cases[i].gpu};
            if (verb == VG_MOVE_ATTACH)
                facts.gpu = VG_GPU_ATTACHED;
            vg_move_report(&move, verb != cases[i].fails, verb == VG_MOVE_LOOK ? &facts : NULL);
            if (verb != VG_MOVE_LOOK)
                g_string_append_printf(said, "%s%s", said->len > 0 ? " " : "",
                                       vg_move_verb_names[verb]);
        }
        assert_string_equal(said->str, cases[i].verbs);
        assert_int_equal(vg_move_state(&move), cases[i].end);
    }
}

/* A guest that could not let go of its GPU, and said so, is not asked to take it up. */
static void
test_guest_as_before(void **state)
{
    (void)state;
    const struct vg_move_facts facts = {.place = VG_PLACE_SOURCE, .gpu = VG_GPU_ATTACHED};
    struct vg_move move;
    enum vg_move_verb verb;

    vg_move_init(&move, true, true);
    while ((verb = vg_move_next(&move)) != VG_MOVE_VERB_MAX) {
        assert_int_not_equal(verb, VG_MOVE_REVIVE);
        if (verb == VG_MOVE_QUIESCE)
            vg_move_guest_as_before(&move);
        vg_move_report(&move, verb != VG_MOVE_QUIESCE, verb == VG_MOVE_LOOK ? &facts : NULL);
    }
    assert_int_equal(vg_move_state(&move), VG_MIGRATION_ROLLED_BACK);
}

/* The VM left, found no GPU, came back, and the source does not give it its GPU either: that is
 * told. */
static void
test_no_way_back(void **state)
{
    (void)state;
    struct world world = start;
    struct vg_move move;
    enum vg_move_verb verb;
    unsigned reattached = 0;

    vg_move_init(&move, true, true);
    while ((verb = vg_move_next(&move)) != VG_MOVE_VERB_MAX) {
        const bool ok = verb != VG_MOVE_ATTACH && verb != VG_MOVE_REATTACH;
        reattached += verb == VG_MOVE_REATTACH;
        if (ok)
            assert_true(world_change(&world, verb));
        const struct vg_move_facts facts = {.place = world.place, .gpu = world.gpu};
        vg_move_report(&move, ok, verb == VG_MOVE_LOOK ? &facts : NULL);
    }
    assert_int_equal(reattached, 3);
    assert_int_equal(vg_move_state(&move), VG_MIGRATION_FAILED);
    assert_int_equal(move.facts.place, VG_PLACE_SOURCE);
    assert_int_equal(move.facts.gpu, VG_GPU_DETACHED);
    assert_false(world.reserved);
}

/* Without GPUs, or without an agent, there is less to do. */
/* What a move that did not arrive leaves otherwise than it was is put right at the end. */
/* Returns the first verb from here on that is no look, with the VM and its GPUs there. */
static enum vg_move_verb
next_but_look(struct vg_move *move, enum vg_migration_place place, enum vg_migration_gpu gpu)
{
    const struct vg_move_facts facts = {.place = place, .gpu = gpu};
    enum vg_move_verb verb;

    while ((verb = vg_move_next(move)) == VG_MOVE_LOOK)
        vg_move_report(move, true, &facts);
    return verb;
}

static void
test_causes_that_pass(void **state)
{
    static const enum vg_move_verb forward[] = {VG_MOVE_PRECHECK, VG_MOVE_RESERVE, VG_MOVE_DETACH,
                                                VG_MOVE_MIGRATE};
    struct vg_move move;

    (void)state;
    vg_move_init(&move, true, false);
    for (size_t i = 0; i < G_N_ELEMENTS(forward); i++) {
        assert_int_equal(next_but_look(&move, VG_PLACE_SOURCE, VG_GPU_ATTACHED), forward[i]);
        vg_move_report(&move, true, NULL);
    }
    /* The target does not answer for a while: the VM stays there, and gets its GPU. */
    struct vg_move passes = move;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(next_but_look(&passes, VG_PLACE_TARGET, VG_GPU_DETACHED), VG_MOVE_ATTACH);
        vg_move_failed_for_now(&passes);
    }
    assert_int_equal(next_but_look(&passes, VG_PLACE_TARGET, VG_GPU_DETACHED), VG_MOVE_ATTACH);
    vg_move_report(&passes, true, NULL);
    /* Nor is it a failed move if a host does not answer when all is looked at. */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(next_but_look(&passes, VG_PLACE_TARGET, VG_GPU_ATTACHED), VG_MOVE_VERIFY);
        vg_move_failed_for_now(&passes);
    }
    assert_int_equal(next_but_look(&passes, VG_PLACE_TARGET, VG_GPU_ATTACHED), VG_MOVE_VERIFY);
    assert_false(passes.failed);
    /* It does not answer at all: the VM goes back, for which the source is tried as often. */
    for (int i = 0; i < 4; i++) {
        assert_int_equal(next_but_look(&move, VG_PLACE_TARGET, VG_GPU_DETACHED), VG_MOVE_ATTACH);
        vg_move_failed_for_now(&move);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(next_but_look(&move, VG_PLACE_TARGET, VG_GPU_DETACHED), VG_MOVE_RETURN);
        vg_move_failed_for_now(&move);
    }
    assert_int_equal(next_but_look(&move, VG_PLACE_TARGET, VG_GPU_DETACHED), VG_MOVE_TIDY);
}

static void
test_tidy(void **state)
{
    static const struct {
        bool tidies;
        enum vg_migration_place place; /* once the migration has failed */
        unsigned failing;              /* so often */
        const char *verbs;
        enum vg_migration_state end;
    } cases[] = {
        {true, VG_PLACE_SOURCE, 0, "precheck migrate tidy", VG_MIGRATION_ROLLED_BACK},
        {true, VG_PLACE_NOWHERE, 0, "precheck migrate tidy", VG_MIGRATION_FAILED},
        /* It is told, and does not change how the move has ended. */
        {true, VG_PLACE_SOURCE, 1, "precheck migrate tidy tidy", VG_MIGRATION_ROLLED_BACK},
        {true, VG_PLACE_SOURCE, 9, "precheck migrate tidy tidy", VG_MIGRATION_ROLLED_BACK},
        {false, VG_PLACE_SOURCE, 0, "precheck migrate", VG_MIGRATION_ROLLED_BACK},
        {false, VG_PLACE_NOWHERE, 0, "precheck migrate", VG_MIGRATION_FAILED},
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GString) said = g_string_new(NULL);
        struct vg_move_facts facts = {.place = VG_PLACE_SOURCE, .gpu = VG_GPU_ATTACHED};
        unsigned failing = cases[i].failing;
        struct vg_move move;
        enum vg_move_verb verb;
        vg_move_init(&move, false, false);
        move.tidies = cases[i].tidies;
        while ((verb = vg_move_next(&move)) != VG_MOVE_VERB_MAX) {
            bool ok = verb != VG_MOVE_MIGRATE;
            if (verb == VG_MOVE_MIGRATE)
                facts.place = cases[i].place;
            if (verb == VG_MOVE_TIDY && failing > 0) {
                ok = false;
                failing--;
            }
            vg_move_report(&move, ok, verb == VG_MOVE_LOOK ? &facts : NULL);
            if (verb != VG_MOVE_LOOK)
                g_string_append_printf(said, "%s%s", said->len > 0 ? " " : "",
                                       vg_move_verb_names[verb]);
        }
        assert_string_equal(said->str, cases[i].verbs);
        assert_int_equal(vg_move_state(&move), cases[i].end);
    }
}

static void
test_less_to_do(void **state)
{
    (void)state;
    static const char *const wanted[] = {
        "precheck migrate verify", "precheck migrate verify",
        "precheck reserve detach migrate attach verify release",
        "precheck reserve quiesce detach migrate attach resume verify release"};

    for (int i = 0; i < 4; i++) {
        g_autoptr(GString) said = g_string_new(NULL);
        struct world world = start;
        struct vg_move move;
        enum vg_move_verb verb;
        vg_move_init(&move, i & 2, i & 1);
        while ((verb = vg_move_next(&move)) != VG_MOVE_VERB_MAX) {
            if (i & 2)
                world_change(&world, verb);
            else if (verb == VG_MOVE_MIGRATE)
                world.place = VG_PLACE_TARGET;
            const struct vg_move_facts facts = {.place = world.place, .gpu = world.gpu};
            vg_move_report(&move, true, verb == VG_MOVE_LOOK ? &facts : NULL);
            if (verb != VG_MOVE_LOOK)
                g_string_append_printf(said, "%s%s", said->len > 0 ? " " : "",
                                       vg_move_verb_names[verb]);
        }
        assert_string_equal(said->str, wanted[i]);
        assert_int_equal(vg_move_state(&move), VG_MIGRATION_DONE);
    }
}

/* Runs the move to its end; what fails does so each time, without an effect. Returns the verbs but
 * the looks. */
static char *
run_with(struct vg_move *move, struct world *world, const bool fails[VG_MOVE_VERB_MAX])
{
    GString *said = g_string_new(NULL);
    enum vg_move_verb verb;

    while ((verb = vg_move_next(move)) != VG_MOVE_VERB_MAX) {
        if (!fails[verb])
            assert_true(world_change(world, verb));
        const struct vg_move_facts facts = {.place = world->place, .gpu = world->gpu};
        vg_move_report(move, !fails[verb], verb == VG_MOVE_LOOK ? &facts : NULL);
        if (verb != VG_MOVE_LOOK)
            g_string_append_printf(said, "%s%s", said->len > 0 ? " " : "",
                                   vg_move_verb_names[verb]);
    }
    return g_string_free(said, FALSE);
}

/* A move that has failed is finished: by what failed and what follows, forward on the target, back
 * on the source. */
static void
test_retry(void **state)
{
    (void)state;
    static const struct {
        enum vg_move_verb fails[3];  /* at first; VERB_MAX: nothing */
        enum vg_move_verb still[2];  /* when it is taken up again */
        const char *verbs;           /* then */
        enum vg_migration_state end; /* after that */
    } cases[] = {
        {{VG_MOVE_RESUME, VG_MOVE_VERB_MAX, VG_MOVE_VERB_MAX},
         {VG_MOVE_VERB_MAX, VG_MOVE_VERB_MAX},
         "resume release",
         VG_MIGRATION_DONE},
        {{VG_MOVE_VERIFY, VG_MOVE_VERB_MAX, VG_MOVE_VERB_MAX},
         {VG_MOVE_VERB_MAX, VG_MOVE_VERB_MAX},
         "verify release",
         VG_MIGRATION_DONE},
        {{VG_MOVE_VERIFY, VG_MOVE_VERB_MAX, VG_MOVE_VERB_MAX},
         {VG_MOVE_VERIFY, VG_MOVE_VERB_MAX},
         "verify release",
         VG_MIGRATION_FAILED},
        {{VG_MOVE_ATTACH, VG_MOVE_RETURN, VG_MOVE_VERB_MAX},
         {VG_MOVE_VERB_MAX, VG_MOVE_VERB_MAX},
         "reserve attach resume verify release",
         VG_MIGRATION_DONE},
        {{VG_MOVE_ATTACH, VG_MOVE_RETURN, VG_MOVE_VERB_MAX},
         {VG_MOVE_RESERVE, VG_MOVE_VERB_MAX},
         "reserve return reattach revive tidy release",
         VG_MIGRATION_ROLLED_BACK},
        {{VG_MOVE_ATTACH, VG_MOVE_RETURN, VG_MOVE_VERB_MAX},
         {VG_MOVE_ATTACH, VG_MOVE_VERB_MAX},
         "reserve attach return reattach revive tidy release",
         VG_MIGRATION_ROLLED_BACK},
        {{VG_MOVE_ATTACH, VG_MOVE_RETURN, VG_MOVE_VERB_MAX},
         {VG_MOVE_ATTACH, VG_MOVE_RETURN},
         "reserve attach return tidy release",
         VG_MIGRATION_FAILED},
        {{VG_MOVE_MIGRATE, VG_MOVE_REATTACH, VG_MOVE_VERB_MAX},
         {VG_MOVE_VERB_MAX, VG_MOVE_VERB_MAX},
         "reattach revive tidy release",
         VG_MIGRATION_ROLLED_BACK},
        {{VG_MOVE_MIGRATE, VG_MOVE_REVIVE, VG_MOVE_VERB_MAX},
         {VG_MOVE_VERB_MAX, VG_MOVE_VERB_MAX},
         "revive tidy release",
         VG_MIGRATION_ROLLED_BACK},
        {{VG_MOVE_LOOK, VG_MOVE_VERB_MAX, VG_MOVE_VERB_MAX},
         {VG_MOVE_VERB_MAX, VG_MOVE_VERB_MAX},
         "",
         VG_MIGRATION_FAILED},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct world world = start;
        struct vg_move move;
        bool fails[VG_MOVE_VERB_MAX + 1] = {false}, still[VG_MOVE_VERB_MAX + 1] = {false};
        for (size_t k = 0; k < 3; k++)
            fails[cases[i].fails[k]] = true;
        for (size_t k = 0; k < 2; k++)
            still[cases[i].still[k]] = true;
        vg_move_init(&move, true, true);
        g_free(run_with(&move, &world, fails));
        assert_int_equal(vg_move_state(&move), VG_MIGRATION_FAILED);
        vg_move_retry(&move);
        g_autofree char *verbs = run_with(&move, &world, still);
        assert_string_equal(verbs, cases[i].verbs);
        assert_int_equal(vg_move_state(&move), cases[i].end);
        assert_false(world.reserved);
    }
}

/* ---- any world ---- */

/* A record of the journal: an intent and, unless it was lost in a crash, its outcome. */
struct record {
    enum vg_move_verb verb;
    bool ended, ok;
    unsigned attempt;
};

struct run {
    GRand *chance;
    struct world world;
    struct vg_move move;
    bool has_gpus, has_agent;
    struct record records[STEPS_MAX];
    unsigned n;
    unsigned attempt; /* how often it was taken up again */
    double failing, crashing, aborting;
    bool looked; /* since the last verb of its kind */
    unsigned since_look[VG_MOVE_VERB_MAX];
    bool went_back; /* a verb of the way back was requested */
    unsigned releases_failed, tidies_failed;
};

static void
check_verb(struct run *run, enum vg_move_verb verb)
{
    const struct world *world = &run->world;

    /* Nothing is asked for twice without a look. */
    if (verb == VG_MOVE_LOOK)
        memset(run->since_look, 0, sizeof(run->since_look));
    else
        assert_int_equal(run->since_look[verb]++, 0);
    switch (verb) {
    case VG_MOVE_MIGRATE:
        assert_true(world->place == VG_PLACE_SOURCE && !run->went_back);
        assert_true(!run->has_gpus || world->gpu == VG_GPU_DETACHED);
        assert_true(!run->has_gpus || run->move.done[VG_MOVE_RESERVE]);
        break;
    case VG_MOVE_RETURN:
        assert_true(world->place == VG_PLACE_TARGET && world->gpu == VG_GPU_DETACHED);
        break;
    case VG_MOVE_QUIESCE:
        assert_true(world->place == VG_PLACE_SOURCE && !run->went_back && run->has_agent);
        break;
    case VG_MOVE_DETACH:
        assert_false(run->went_back);
        break;
    case VG_MOVE_ATTACH:
        assert_true(world->place == VG_PLACE_TARGET && !run->went_back);
        break;
    case VG_MOVE_RESUME:
        assert_true(world->place == VG_PLACE_TARGET && world->gpu == VG_GPU_ATTACHED);
        break;
    case VG_MOVE_REATTACH:
        assert_true(world->place == VG_PLACE_SOURCE && world->gpu != VG_GPU_ATTACHED);
        break;
    case VG_MOVE_REVIVE:
        assert_true(world->place == VG_PLACE_SOURCE && world->gpu == VG_GPU_ATTACHED);
        break;
    case VG_MOVE_TIDY:
        assert_true(run->move.back || world->place == VG_PLACE_NOWHERE);
        assert_true(run->move.asked[VG_MOVE_DETACH] || run->move.asked[VG_MOVE_MIGRATE]);
        break;
    case VG_MOVE_RELEASE:
        /* Nobody gives the way back away before there is no need of it. */
        assert_true(run->move.back || run->move.failed || run->move.done[VG_MOVE_VERIFY]);
        break;
    case VG_MOVE_LOOK:
    case VG_MOVE_PRECHECK:
    case VG_MOVE_RESERVE:
    case VG_MOVE_VERIFY:
    case VG_MOVE_VERB_MAX:
    default:
        break;
    }
    run->went_back = run->went_back || verb == VG_MOVE_RETURN || verb == VG_MOVE_REATTACH ||
                     verb == VG_MOVE_REVIVE;
}

/* The driver was killed: a new one reads the journal. */
static void
crash(struct run *run)
{
    unsigned attempt = 0;

    vg_move_init(&run->move, run->has_gpus, run->has_agent);
    for (unsigned i = 0; i < run->n; i++) {
        for (; attempt < run->records[i].attempt; attempt++)
            vg_move_retry(&run->move);
        vg_move_replay(&run->move, run->records[i].verb, run->records[i].ended, run->records[i].ok);
    }
    for (; attempt < run->attempt; attempt++)
        vg_move_retry(&run->move);
    vg_move_recover(&run->move);
}

static bool
happens(const struct run *run, double p)
{
    return g_rand_double(run->chance) < p;
}

static struct vg_move_facts
look(const struct run *run)
{
    struct vg_move_facts facts = {.place = run->world.place, .gpu = run->world.gpu};

    /* A host may not answer; a migration may still be under way. */
    if (happens(run, run->failing / 3))
        facts.place = happens(run, 0.5) ? VG_PLACE_UNKNOWN : VG_PLACE_MOVING;
    return facts;
}

static void
step(struct run *run, enum vg_move_verb verb)
{
    struct record *record = &run->records[run->n++];
    bool fails = happens(run, run->failing);

    *record = (struct record){.verb = verb, .attempt = run->attempt};
    check_verb(run, verb);
    if (happens(run, run->aborting))
        vg_move_abort(&run->move);
    if (verb == VG_MOVE_LOOK) {
        const struct vg_move_facts facts = look(run);
        if (happens(run, run->crashing)) {
            crash(run);
            return;
        }
        *record = (struct record){verb, true, !fails, run->attempt};
        vg_move_report(&run->move, !fails, fails ? NULL : &facts);
        return;
    }
    /* What fails may have had its effect, and what succeeds has. */
    if (!fails || happens(run, 0.5)) {
        const bool may = !run->has_gpus && (verb == VG_MOVE_MIGRATE || verb == VG_MOVE_RETURN);
        if (may)
            run->world.place = verb == VG_MOVE_MIGRATE ? VG_PLACE_TARGET : VG_PLACE_SOURCE;
        else
            fails = !world_change(&run->world, verb) || fails;
    } else if (verb == VG_MOVE_DETACH && happens(run, 0.3)) {
        run->world.gpu = VG_GPU_PARTLY;
    } else if (verb == VG_MOVE_MIGRATE) {
        run->world.leftover = run->world.leftover || happens(run, 0.3);
    }
    run->releases_failed += verb == VG_MOVE_RELEASE && fails;
    run->tidies_failed += verb == VG_MOVE_TIDY && fails;
    if (happens(run, run->crashing)) {
        crash(run);
        return;
    }
    *record = (struct record){verb, true, !fails, run->attempt};
    vg_move_report(&run->move, !fails, NULL);
}

static void
check_end(const struct run *run)
{
    const struct world *world = &run->world;
    const enum vg_migration_state end = vg_move_state(&run->move);
    const bool has_its_gpu = !run->has_gpus || world->gpu == VG_GPU_ATTACHED;

    assert_true(vg_migration_has_ended(end));
    if (end == VG_MIGRATION_DONE)
        assert_true(world->place == VG_PLACE_TARGET && has_its_gpu && !world->quiesced);
    if (end == VG_MIGRATION_ROLLED_BACK || end == VG_MIGRATION_ABORTED)
        assert_true(world->place == VG_PLACE_SOURCE && has_its_gpu && !world->quiesced);
    if (end == VG_MIGRATION_ABORTED)
        assert_true(run->move.aborted);
    /* What it says it knows is true. */
    if (run->move.looked) {
        assert_int_equal(run->move.facts.place, world->place);
        assert_true(!run->has_gpus || run->move.facts.gpu == world->gpu);
        if (run->releases_failed == 0)
            assert_false(world->reserved);
        if (run->tidies_failed == 0)
            assert_true(world->defined && !world->leftover);
    }
    /* Where nothing fails, it gets there. */
    if (run->attempt == 0 && run->failing <= 0 && run->crashing <= 0 && run->aborting <= 0)
        assert_int_equal(end, VG_MIGRATION_DONE);
}

static void
run_to_end(struct run *run)
{
    enum vg_move_verb verb;

    while ((verb = vg_move_next(&run->move)) != VG_MOVE_VERB_MAX) {
        assert_true(run->n < STEPS_MAX);
        step(run, verb);
    }
    check_end(run);
    assert_int_equal(vg_move_next(&run->move), VG_MOVE_VERB_MAX);
    assert_false(vg_move_abort(&run->move));
}

static void
retry(struct run *run)
{
    vg_move_retry(&run->move);
    run->attempt++;
    run->went_back = false;
    run->releases_failed = 0;
    run->tidies_failed = 0;
    memset(run->since_look, 0, sizeof(run->since_look));
}

/* Whoever is asked answers and does what he is asked for. */
static void
check_retry_finishes(struct run *run)
{
    enum vg_move_verb verb;

    run->failing = run->crashing = run->aborting = 0;
    retry(run);
    while ((verb = vg_move_next(&run->move)) != VG_MOVE_VERB_MAX)
        step(run, verb);
    const struct world *world = &run->world;
    const enum vg_migration_state end = vg_move_state(&run->move);
    assert_true(!run->has_gpus || world->gpu == VG_GPU_ATTACHED);
    assert_false(world->quiesced || world->reserved);
    if (world->place == VG_PLACE_TARGET)
        assert_int_equal(end, VG_MIGRATION_DONE);
    else
        assert_true(end == VG_MIGRATION_ROLLED_BACK ||
                    (end == VG_MIGRATION_FAILED && !run->move.asked[VG_MOVE_QUIESCE] &&
                     !run->move.asked[VG_MOVE_DETACH] && !run->move.asked[VG_MOVE_MIGRATE]));
}

static void
run_once(GRand *chance)
{
    struct run run = {
        .chance = chance,
        .world = start,
        .has_gpus = g_rand_int_range(chance, 0, 8) > 0,
        .has_agent = g_rand_int_range(chance, 0, 4) > 0,
    };

    run.failing = happens(&run, 0.1) ? 0 : g_rand_double_range(chance, 0, 0.5);
    run.crashing = happens(&run, 0.5) ? 0 : g_rand_double_range(chance, 0, 0.2);
    run.aborting = happens(&run, 0.5) ? 0 : g_rand_double_range(chance, 0, 0.2);
    vg_move_init(&run.move, run.has_gpus, run.has_agent);
    run_to_end(&run);
    if (vg_move_state(&run.move) == VG_MIGRATION_FAILED && happens(&run, 0.5)) {
        retry(&run);
        run_to_end(&run);
    }
    if (vg_move_state(&run.move) == VG_MIGRATION_FAILED)
        check_retry_finishes(&run);
}

static void
test_any_world(void **state)
{
    (void)state;
    const unsigned rounds = chance_rounds(5000, 200000);
    GRand *chance = chance_rand();

    for (unsigned i = 0; i < rounds; i++)
        run_once(chance);
    g_rand_free(chance);
}

/* It can be turned back until the VM has switched hosts, and not later. */
static void
test_abort_is_too_late(void **state)
{
    (void)state;
    struct world world = start;
    struct vg_move move;
    enum vg_move_verb verb;

    vg_move_init(&move, true, true);
    while ((verb = vg_move_next(&move)) != VG_MOVE_VERB_MAX) {
        if (verb > VG_MOVE_MIGRATE)
            assert_false(vg_move_abort(&move));
        /* Asked for while it migrates, and libvirt was faster. */
        if (verb == VG_MOVE_MIGRATE)
            assert_true(vg_move_abort(&move));
        world_change(&world, verb);
        const struct vg_move_facts facts = {.place = world.place, .gpu = world.gpu};
        vg_move_report(&move, true, verb == VG_MOVE_LOOK ? &facts : NULL);
    }
    assert_int_equal(vg_move_state(&move), VG_MIGRATION_DONE);
}

/* The target has given its GPU away while a verb runs. The verb ends as it may. */
static void
test_turn_back(void **state)
{
    (void)state;
    for (int verb_then = VG_MOVE_QUIESCE; verb_then <= VG_MOVE_ATTACH; verb_then++) {
        for (int ok = 0; ok < 2; ok++) {
            struct world world = start;
            struct vg_move move;
            enum vg_move_verb verb;
            bool turned = false, attached = false;
            vg_move_init(&move, true, true);
            while ((verb = vg_move_next(&move)) != VG_MOVE_VERB_MAX) {
                const bool now = (int)verb == verb_then && !turned;
                if (now)
                    assert_int_equal(vg_move_turn_back(&move), verb <= VG_MOVE_MIGRATE);
                turned = turned || now;
                /* libvirt may be faster, and then there is no GPU to attach. */
                const bool does = !(now && !ok) && !(verb == VG_MOVE_ATTACH && turned);
                if (does)
                    world_change(&world, verb);
                attached = attached || (does && verb == VG_MOVE_ATTACH);
                const struct vg_move_facts facts = {.place = world.place, .gpu = world.gpu};
                vg_move_report(&move, does, verb == VG_MOVE_LOOK ? &facts : NULL);
            }
            assert_false(attached);
            assert_int_equal(vg_move_state(&move), VG_MIGRATION_ROLLED_BACK);
            assert_int_equal(world.place, VG_PLACE_SOURCE);
            assert_int_equal(world.gpu, VG_GPU_ATTACHED);
        }
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_failure),
        cmocka_unit_test(test_final_failure),
        cmocka_unit_test(test_native),
        cmocka_unit_test(test_guest_as_before),
        cmocka_unit_test(test_no_way_back),
        cmocka_unit_test(test_less_to_do),
        cmocka_unit_test(test_causes_that_pass),
        cmocka_unit_test(test_tidy),
        cmocka_unit_test(test_retry),
        cmocka_unit_test(test_any_world),
        cmocka_unit_test(test_abort_is_too_late),
        cmocka_unit_test(test_turn_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
