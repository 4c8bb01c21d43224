/* SPDX-License-Identifier: Apache-2.0
 *
 * What a move is expected to take, where a VM is, and what a move was good for.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "base/clock.h"
#include "move/effect.h"
#include "move/forecast.h"
#include "move/place.h"
#include "move/route.h"
#include "move/standstill.h"

#define GIB (INT64_C(1) << 30)

static const struct vg_forecast_limits limits = {
    .guest_ns = 60 * VG_NS_PER_S, .unplug_ns = 30 * VG_NS_PER_S, .migrate_ns = 900 * VG_NS_PER_S};

static bool
has_step(const struct vg_forecast *forecast, enum vg_move_verb verb)
{
    for (size_t i = 0; i < forecast->n; i++) {
        if (forecast->steps[i].verb == verb)
            return true;
    }
    return false;
}

/* Returns a step, which must be there. */
static struct vg_forecast_step
step_of(const struct vg_forecast *forecast, enum vg_move_verb verb)
{
    for (size_t i = 0; i < forecast->n; i++) {
        if (forecast->steps[i].verb == verb)
            return forecast->steps[i];
    }
    fail_msg("there is no step %s", vg_move_verb_names[verb]);
    return (struct vg_forecast_step){0};
}

static void
assert_about(double is, double should)
{
    if (is < should - 0.001 || is > should + 0.001)
        fail_msg("%f is not %f", is, should);
}

static void
test_forecast(void **state)
{
    const struct vg_forecast_facts facts = {.memory_bytes = 8 * GIB,
                                            .has_programs = true,
                                            .gpu_bytes = 16 * GIB,
                                            .link_bytes_per_s = GIB,
                                            .stun_ns = VG_NS_PER_S / 2};
    struct vg_forecast forecast;
    double sum = 0;

    (void)state;
    vg_forecast_make(true, true, &facts, &limits, &forecast);
    /* 2 s and 16 GiB at 3 GiB/s; at 7 GiB/s; a second, 24 GiB at 1 GiB/s and half
     * a second. */
    assert_about(step_of(&forecast, VG_MOVE_QUIESCE).expected_s, 0.5 + 16 / 2.4);
    assert_about(step_of(&forecast, VG_MOVE_RESUME).expected_s, 0.5 + 16 / 6.0);
    assert_about(step_of(&forecast, VG_MOVE_MIGRATE).expected_s, 25.5);
    assert_about(step_of(&forecast, VG_MOVE_QUIESCE).deadline_s, 60 + 3 * 16 * 1.073741824 * 2);
    assert_about(step_of(&forecast, VG_MOVE_RESUME).deadline_s, 60 + 16 * 1.073741824 * 2);
    assert_about(step_of(&forecast, VG_MOVE_DETACH).deadline_s, 30);
    assert_about(step_of(&forecast, VG_MOVE_MIGRATE).deadline_s, 900);
    for (size_t i = 0; i < forecast.n; i++)
        sum += forecast.steps[i].expected_s;
    assert_about(forecast.expected_s, sum);
    /* Release, unplug, migrate, plug, take back. */
    assert_about(forecast.standstill_s, 0.5 + 16 / 2.4 + 1 + 25.5 + 1 + 0.5 + 16 / 6.0);
    assert_int_equal(forecast.steps[0].verb, VG_MOVE_LOOK);
}

static void
test_forecast_of_less(void **state)
{
    struct vg_forecast_facts facts = {.memory_bytes = 8 * GIB, .link_bytes_per_s = GIB};
    struct vg_forecast forecast;

    (void)state;
    /* No program of the guest uses a GPU. */
    vg_forecast_make(true, true, &facts, &limits, &forecast);
    assert_about(step_of(&forecast, VG_MOVE_QUIESCE).expected_s, 0.3);
    assert_about(step_of(&forecast, VG_MOVE_RESUME).expected_s, 0.3);
    /* No agent is asked, no GPU is moved. */
    vg_forecast_make(true, false, &facts, &limits, &forecast);
    assert_false(has_step(&forecast, VG_MOVE_QUIESCE));
    assert_true(has_step(&forecast, VG_MOVE_DETACH));
    vg_forecast_make(false, true, &facts, &limits, &forecast);
    assert_false(has_step(&forecast, VG_MOVE_DETACH));
    assert_false(has_step(&forecast, VG_MOVE_QUIESCE));
    assert_about(step_of(&forecast, VG_MOVE_MIGRATE).expected_s, 9);
    assert_about(forecast.standstill_s, 0);
    /* The slower of the link and what may be taken of it. */
    facts.bandwidth_bytes_per_s = GIB / 2;
    vg_forecast_make(false, true, &facts, &limits, &forecast);
    assert_about(step_of(&forecast, VG_MOVE_MIGRATE).expected_s, 17);
    facts.bandwidth_bytes_per_s = 4 * GIB;
    vg_forecast_make(false, true, &facts, &limits, &forecast);
    assert_about(step_of(&forecast, VG_MOVE_MIGRATE).expected_s, 9);
    /* Of 8 GiB the guest has touched 2. It rewrites half a GiB during the first pass, as in any
     * second, and half of that during the second one, which takes half a second. */
    facts = (struct vg_forecast_facts){.memory_bytes = 8 * GIB,
                                       .link_bytes_per_s = GIB,
                                       .touched_bytes = 2 * GIB,
                                       .dirty_bytes_per_s = GIB / 2};
    vg_forecast_make(false, true, &facts, &limits, &forecast);
    assert_about(step_of(&forecast, VG_MOVE_MIGRATE).expected_s, 1 + 2 + 0.5 + 0.25);
    /* One that rewrites all of it, and faster, is slowed down. */
    facts.dirty_bytes_per_s = 3 * GIB;
    vg_forecast_make(false, true, &facts, &limits, &forecast);
    assert_about(step_of(&forecast, VG_MOVE_MIGRATE).expected_s, 1 + 2 * 5);
}

/* ---- learning ---- */

static void
add_step(vg_migration *move, enum vg_move_verb verb, int64_t took_s, bool ok)
{
    struct vg_migration_step *step = vg_record_new(&vg_migration_step_record);

    step->verb = g_strdup(vg_move_verb_names[verb]);
    step->began_ns = VG_NS_PER_S;
    step->ended_ns = (took_s + 1) * VG_NS_PER_S;
    step->ok = ok;
    g_ptr_array_add(move->steps, step);
}

/* A move in which the guest let go of 16 GiB of GPU memory, and copying took copy_s. */
static void
add_move(GPtrArray *moves, const char *uuid, int64_t quiesce_s, int64_t migrate_s, int64_t copy_s)
{
    vg_migration *move = vg_migration_new();

    move->uuid = g_strdup(uuid);
    move->state = VG_MIGRATION_DONE;
    move->guest.gpu_bytes = 16 * GIB;
    move->progress.processed_bytes = 4 * GIB;
    move->progress.elapsed_ns = copy_s * VG_NS_PER_S;
    add_step(move, VG_MOVE_QUIESCE, quiesce_s, true);
    add_step(move, VG_MOVE_MIGRATE, migrate_s, true);
    add_step(move, VG_MOVE_RESUME, 99, false);
    g_ptr_array_add(moves, move);
}

static void
test_forecast_learns(void **state)
{
    g_autoptr(GPtrArray) moves = g_ptr_array_new_with_free_func(vg_migration_free);
    struct vg_forecast_past past;
    struct vg_forecast_facts facts = {.memory_bytes = 8 * GIB,
                                      .has_programs = true,
                                      .link_bytes_per_s = 100 * GIB,
                                      .past = &past};
    struct vg_forecast forecast;

    (void)state;
    vg_forecast_learn(moves, "a", &past);
    assert_about(past.took_s[VG_MOVE_QUIESCE], 0);
    /* 16 GiB take 5 1/3 s; the median of what is left of 13, 17 and 11 s. Another VM's count for as
     * long as this one has none. */
    add_move(moves, "b", 13, 6, 4);
    add_move(moves, "b", 17, 7, 2);
    add_move(moves, "b", 11, 6, 4);
    vg_forecast_learn(moves, "a", &past);
    assert_about(past.took_s[VG_MOVE_QUIESCE], 13 - 16 / 2.4);
    assert_about(past.took_s[VG_MOVE_MIGRATE], 2);
    assert_about(past.took_s[VG_MOVE_RESUME], 0);
    assert_int_equal(past.copied_bytes, 0);
    assert_int_equal(past.bytes_per_s, GIB); /* the median of 1, 1 and 2 GiB/s */
    vg_forecast_make(true, true, &facts, &limits, &forecast);
    assert_about(step_of(&forecast, VG_MOVE_QUIESCE).expected_s, 13 - 16 / 2.4);
    assert_about(step_of(&forecast, VG_MOVE_RESUME).expected_s, 0.5);
    assert_about(step_of(&forecast, VG_MOVE_MIGRATE).expected_s, 2 + 8);
    add_move(moves, "a", 15, 5, 4);
    vg_forecast_learn(moves, "a", &past);
    assert_about(past.took_s[VG_MOVE_QUIESCE], 15 - 16 / 2.4);
    vg_forecast_make(true, true, &facts, &limits, &forecast);
    assert_about(step_of(&forecast, VG_MOVE_MIGRATE).expected_s, 1 + 4);
    /* One that failed teaches nothing. */
    ((vg_migration *)moves->pdata[3])->state = VG_MIGRATION_FAILED;
    vg_forecast_learn(moves, "a", &past);
    assert_about(past.took_s[VG_MOVE_QUIESCE], 13 - 16 / 2.4);
}

/* 108 GB on one H200 took 32.1 s to release and 13.2 s to restore: the same VM with other sizes. */
static void
test_forecast_learns_rates(void **state)
{
    g_autoptr(GPtrArray) moves = g_ptr_array_new_with_free_func(vg_migration_free);
    struct vg_guest_program *program = vg_record_new(&vg_guest_program_record);
    struct vg_forecast_past past;
    struct vg_forecast_facts facts = {.memory_bytes = 8 * GIB,
                                      .has_programs = true,
                                      .gpu_bytes = 54000000000,
                                      .link_bytes_per_s = 100 * GIB,
                                      .past = &past};
    struct vg_forecast forecast;

    (void)state;
    /* The agent took 1.9 s and 0.8 s besides. */
    add_move(moves, "a", 34, 6, 4);
    vg_migration *move = moves->pdata[0];
    move->guest.gpu_bytes = 108000000000;
    program->checkpoint_ns = 32100 * VG_NS_PER_MS;
    program->restore_ns = 13200 * VG_NS_PER_MS;
    g_ptr_array_add(move->guest.programs, program);
    add_step(move, VG_MOVE_RESUME, 14, true);
    vg_forecast_learn(moves, "a", &past);
    vg_forecast_make(true, true, &facts, &limits, &forecast);
    assert_about(step_of(&forecast, VG_MOVE_QUIESCE).expected_s, 1.9 + 32.1 / 2);
    assert_about(step_of(&forecast, VG_MOVE_RESUME).expected_s, 0.8 + 13.2 / 2);
    /* Little memory would not show the rate. */
    move->guest.gpu_bytes = GIB / 2;
    vg_forecast_learn(moves, "a", &past);
    assert_about(past.release_bytes_per_s, 0);
    assert_about(past.restore_bytes_per_s, 0);
}

static void
test_allowed(void **state)
{
    (void)state;
    assert_int_equal(vg_guest_allowed_ns(120 * VG_NS_PER_S, 0, true), 120 * VG_NS_PER_S);
    assert_int_equal(vg_guest_allowed_ns(120 * VG_NS_PER_S, -1, true), 120 * VG_NS_PER_S);
    /* Eight GPUs: the order that is left of it is still one that an agent takes. */
    const int64_t most = INT64_C(8) * 141000000000;
    assert_int_equal(vg_guest_allowed_ns(120 * VG_NS_PER_S, most, false), 2376 * VG_NS_PER_S);
    assert_true(vg_guest_allowed_ns(120 * VG_NS_PER_S, most, true) - vg_guest_undo_ns(most) <
                3600 * VG_NS_PER_S);
    assert_true(vg_guest_allowed_ns(0, INT64_MAX, true) < 30000 * VG_NS_PER_S);
}

/* ---- standstill ---- */

/* Runs a move; each verb takes a second, but for fails, which fails once. Returns how long programs
 * stood still, in seconds. */
static int64_t
standstill_when(bool has_gpus, bool has_agent, enum vg_move_verb fails, bool as_before)
{
    g_autoptr(vg_migration) record = vg_migration_new();
    struct vg_move_facts facts = {.place = VG_PLACE_SOURCE, .gpu = VG_GPU_ATTACHED};
    struct vg_move move;
    enum vg_move_verb verb;
    int64_t now_s = 1000;

    vg_move_init(&move, has_gpus, has_agent);
    while ((verb = vg_move_next(&move)) != VG_MOVE_VERB_MAX) {
        const bool ok = verb != fails;
        fails = ok ? fails : VG_MOVE_VERB_MAX;
        vg_standstill_begin(record, &move, verb, now_s++ * VG_NS_PER_S);
        if (!ok && as_before)
            vg_move_guest_as_before(&move);
        if (ok && verb == VG_MOVE_DETACH)
            facts.gpu = VG_GPU_DETACHED;
        if (ok && (verb == VG_MOVE_ATTACH || verb == VG_MOVE_REATTACH))
            facts.gpu = VG_GPU_ATTACHED;
        if (ok && verb == VG_MOVE_MIGRATE)
            facts.place = VG_PLACE_TARGET;
        vg_move_report(&move, ok, ok && verb == VG_MOVE_LOOK ? &facts : NULL);
        vg_standstill_end(record, &move, verb, ok, now_s * VG_NS_PER_S);
    }
    return record->standstill_ns / VG_NS_PER_S;
}

static void
test_standstill(void **state)
{
    (void)state;
    /* quiesce detach migrate attach resume; without the guest's part; without GPUs. */
    assert_int_equal(standstill_when(true, true, VG_MOVE_VERB_MAX, false), 5);
    assert_int_equal(standstill_when(true, false, VG_MOVE_VERB_MAX, false), 3);
    assert_int_equal(standstill_when(false, false, VG_MOVE_VERB_MAX, false), 0);
    /* quiesce detach migrate, a look, reattach revive. */
    assert_int_equal(standstill_when(true, true, VG_MOVE_MIGRATE, false), 6);
    assert_int_equal(standstill_when(true, false, VG_MOVE_MIGRATE, false), 4);
    /* The guest has undone it, or is asked to. */
    assert_int_equal(standstill_when(true, true, VG_MOVE_QUIESCE, true), 1);
    assert_int_equal(standstill_when(true, true, VG_MOVE_QUIESCE, false), 3);
    /* A second resume, after a look. */
    assert_int_equal(standstill_when(true, true, VG_MOVE_RESUME, false), 7);
}

static struct vg_guest_programs *
one_program(int64_t pid, const char *at_state, int64_t stop_ns)
{
    struct vg_guest_programs *programs = vg_record_new(&vg_guest_programs_record);
    struct vg_guest_program *program = vg_record_new(&vg_guest_program_record);

    program->by = g_strdup("opencl");
    program->pid = pid;
    program->state = g_strdup(at_state);
    program->stop_ns = stop_ns;
    g_ptr_array_add(programs->programs, program);
    programs->total = 1;
    return programs;
}

/* Another order to resume helps a program that waits, and none that is lost. */
static void
test_programs_that_are_lost(void **state)
{
    static const struct {
        const char *states; /* of the programs */
        int64_t total;
        bool is_lost, is_final;
    } cases[] = {
        {"running", 1, false, false},           {"failed", 1, true, true},
        {"running failed gone", 3, true, true}, {"failed released", 2, true, false},
        {"locked failed", 2, true, false},      {"failed unknown", 2, true, false},
        {"failed away", 2, true, false},        {"failed running", 33, true, false},
        {"released", 1, false, false},          {"", 0, false, false},
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct vg_guest_programs *programs = vg_record_new(&vg_guest_programs_record);
        g_auto(GStrv) states = g_strsplit(cases[i].states, " ", -1);
        for (guint n = 0; states[n]; n++) {
            struct vg_guest_program *program = vg_record_new(&vg_guest_program_record);
            program->state = g_strdup(states[n]);
            g_ptr_array_add(programs->programs, program);
        }
        programs->total = cases[i].total;
        const struct vg_guest_program *lost = vg_guest_programs_lost(programs);
        assert_int_equal(lost != NULL, cases[i].is_lost);
        if (lost)
            assert_string_equal(lost->state, "failed");
        assert_int_equal(vg_guest_programs_are_final(programs), cases[i].is_final);
        vg_record_free(&vg_guest_programs_record, programs);
    }
}

/* It computes at a proxy while there is no GPU, and stands still twice. */
static void
test_standstill_away(void **state)
{
    static const struct {
        int64_t pid; /* of the program that the guest tells of in the end */
        int64_t expected_ns;
        const char *state; /* of the first one then */
    } ends[] = {{7, 500, "running"}, {8, 0, "gone"}};

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(ends); i++) {
        g_autoptr(vg_migration) record = vg_migration_new();
        struct vg_move move;
        vg_move_init(&move, true, true);
        vg_standstill_begin(record, &move, VG_MOVE_QUIESCE, 1000);
        vg_guest_programs_replace(&record->guest, one_program(7, "away", 300));
        vg_standstill_end(record, &move, VG_MOVE_QUIESCE, true, 1400);
        assert_int_equal(record->standstill_began_ns, 0);
        vg_guest_programs_replace(&record->guest, one_program(ends[i].pid, "running", 200));
        vg_standstill_end(record, &move, VG_MOVE_RESUME, true, 9000);
        assert_int_equal(record->standstill_ns, ends[i].expected_ns);
        const guint last = record->guest.programs->len - 1;
        const struct vg_guest_program *program = record->guest.programs->pdata[last];
        assert_int_equal(program->pid, 7);
        assert_string_equal(program->state, ends[i].state);
        assert_int_equal(program->away_ns, 300);
        assert_int_equal(program->why != NULL, i == 1);
    }
}

/* Short names, for the table. NO_ANSWER is no place. */
enum { NO_ANSWER = -1, ABSENT = VG_DOMAIN_ABSENT, HERE = VG_DOMAIN_HERE };
enum { LEAVING = VG_DOMAIN_LEAVING, INCOMING = VG_DOMAIN_INCOMING, STILL = VG_DOMAIN_STILL };

static void
test_place_of_hosts(void **state)
{
    /* By source and target, in this order. */
    static const int answers[] = {NO_ANSWER, ABSENT, HERE, STILL, LEAVING, INCOMING};
    enum { N = G_N_ELEMENTS(answers) };
#define P(x) VG_PLACE_##x
    static const enum vg_migration_place places[N][N] = {
        {P(UNKNOWN), P(UNKNOWN), P(TARGET), P(UNKNOWN), P(MOVING), P(MOVING)},
        {P(UNKNOWN), P(NOWHERE), P(TARGET), P(TARGET), P(MOVING), P(MOVING)},
        {P(SOURCE), P(SOURCE), P(BOTH), P(SOURCE), P(SOURCE), P(SOURCE)},
        {P(UNKNOWN), P(SOURCE), P(TARGET), P(BOTH), P(MOVING), P(MOVING)},
        {P(MOVING), P(MOVING), P(MOVING), P(MOVING), P(MOVING), P(MOVING)},
        {P(MOVING), P(MOVING), P(MOVING), P(MOVING), P(MOVING), P(MOVING)},
    };
#undef P

    (void)state;
    for (int i = 0; i < N; i++) {
        const struct vg_place_answer source = {answers[i] != NO_ANSWER,
                                               (enum vg_domain_place)MAX(answers[i], 0)};
        for (int k = 0; k < N; k++) {
            const struct vg_place_answer target = {answers[k] != NO_ANSWER,
                                                   (enum vg_domain_place)MAX(answers[k], 0)};
            if (vg_place_of_hosts(&source, &target) != places[i][k])
                fail_msg("source %d, target %d", answers[i], answers[k]);
        }
        /* The target need not be asked, if that makes no difference. */
        assert_int_equal(vg_place_needs_target(&source), answers[i] != HERE);
    }
}

static void
test_place_of_nova(void **state)
{
    static const struct {
        struct vg_place_nova nova;
        enum vg_migration_place place;
        bool final;
    } cases[] = {
        {{.known = false}, VG_PLACE_NOWHERE, false},
        {{.known = true, .is_error = true, .host = "a"}, VG_PLACE_UNKNOWN, true},
        {{.known = true, .is_migrating = true, .host = "a"}, VG_PLACE_MOVING, false},
        {{.known = true, .host = "a"}, VG_PLACE_SOURCE, false},
        {{.known = true, .host = "b"}, VG_PLACE_TARGET, false},
        /* Somebody else has moved it. */
        {{.known = true, .host = "c"}, VG_PLACE_UNKNOWN, true},
        {{.known = true}, VG_PLACE_UNKNOWN, true},
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        const struct vg_move_facts facts = vg_place_of_nova(&cases[i].nova, "a", "b");
        if (facts.place != cases[i].place || facts.final != cases[i].final)
            fail_msg("case %zu", i);
    }
}

static void
test_effect(void **state)
{
    struct vg_migration_effect effect = {.lost_cpu_ns_per_s = 7};
    struct vg_effect_sum sum = {0};

    (void)state;
    /* Four seconds say nothing. */
    for (int i = 0; i < 4; i++)
        vg_effect_add(&sum, 200000000, 50000000, VG_NS_PER_S);
    vg_effect_set(&sum, &effect);
    assert_false(effect.known);
    assert_int_equal(effect.lost_cpu_ns_per_s, 7);
    vg_effect_add(&sum, 0, 250000000, VG_NS_PER_S);
    vg_effect_set(&sum, &effect);
    assert_true(effect.known);
    assert_int_equal(effect.seconds, 5);
    assert_int_equal(effect.lost_cpu_ns_per_s, 250000000);
}

static void
test_route(void **state)
{
    static const struct {
        struct vg_route_facts facts;
        enum vg_route route;
        bool checks_plan;
    } cases[] = {
        {{false, false, true, false}, VG_ROUTE_HERE, false},
        {{false, false, true, true}, VG_ROUTE_HERE, true},
        {{false, false, false, false}, VG_ROUTE_OWNER, false},
        {{false, false, false, true}, VG_ROUTE_OWNER, true},
        /* The same request does the same again, wherever the VM is now, and whatever has become of
         * the plan. */
        {{true, false, true, true}, VG_ROUTE_ANSWER, false},
        {{true, false, false, true}, VG_ROUTE_ANSWER, false},
        {{false, true, true, true}, VG_ROUTE_AGAIN, false},
        {{false, true, false, true}, VG_ROUTE_AGAIN, false},
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        bool checks_plan = !cases[i].checks_plan;
        assert_int_equal(vg_route_choose(&cases[i].facts, &checks_plan), cases[i].route);
        assert_int_equal(checks_plan, cases[i].checks_plan);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forecast),        cmocka_unit_test(test_forecast_of_less),
        cmocka_unit_test(test_forecast_learns), cmocka_unit_test(test_forecast_learns_rates),
        cmocka_unit_test(test_allowed),         cmocka_unit_test(test_standstill),
        cmocka_unit_test(test_standstill_away), cmocka_unit_test(test_place_of_hosts),
        cmocka_unit_test(test_place_of_nova),   cmocka_unit_test(test_effect),
        cmocka_unit_test(test_route),           cmocka_unit_test(test_programs_that_are_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
