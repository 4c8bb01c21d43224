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
                                            .gpu_bytes = 16 * GIB,
                                            .link_bytes_per_s = GIB,
                                            .stun_ns = VG_NS_PER_S / 2};
    struct vg_forecast forecast;
    double sum = 0;

    (void)state;
    vg_forecast_make(true, true, &facts, &limits, &forecast);
    /* 2 s and 16 GiB at 1.6 GiB/s; at 5 GiB/s; 24 GiB at 1 GiB/s and half a second. */
    assert_about(step_of(&forecast, VG_MOVE_QUIESCE).expected_s, 12);
    assert_about(step_of(&forecast, VG_MOVE_RESUME).expected_s, 5.2);
    assert_about(step_of(&forecast, VG_MOVE_MIGRATE).expected_s, 24.5);
    assert_about(step_of(&forecast, VG_MOVE_QUIESCE).deadline_s, 60);
    assert_about(step_of(&forecast, VG_MOVE_DETACH).deadline_s, 30);
    assert_about(step_of(&forecast, VG_MOVE_MIGRATE).deadline_s, 900);
    for (size_t i = 0; i < forecast.n; i++)
        sum += forecast.steps[i].expected_s;
    assert_about(forecast.expected_s, sum);
    assert_int_equal(forecast.steps[0].verb, VG_MOVE_LOOK);
}

static void
test_forecast_of_less(void **state)
{
    struct vg_forecast_facts facts = {.memory_bytes = 8 * GIB, .link_bytes_per_s = GIB};
    struct vg_forecast forecast;

    (void)state;
    /* No agent is asked, no GPU is moved. */
    vg_forecast_make(true, false, &facts, &limits, &forecast);
    assert_false(has_step(&forecast, VG_MOVE_QUIESCE));
    assert_true(has_step(&forecast, VG_MOVE_DETACH));
    vg_forecast_make(false, true, &facts, &limits, &forecast);
    assert_false(has_step(&forecast, VG_MOVE_DETACH));
    assert_false(has_step(&forecast, VG_MOVE_QUIESCE));
    assert_about(step_of(&forecast, VG_MOVE_MIGRATE).expected_s, 8);
    /* The slower of the link and what may be taken of it. */
    facts.bandwidth_bytes_per_s = GIB / 2;
    vg_forecast_make(false, true, &facts, &limits, &forecast);
    assert_about(step_of(&forecast, VG_MOVE_MIGRATE).expected_s, 16);
    facts.bandwidth_bytes_per_s = 4 * GIB;
    vg_forecast_make(false, true, &facts, &limits, &forecast);
    assert_about(step_of(&forecast, VG_MOVE_MIGRATE).expected_s, 8);
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

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forecast),       cmocka_unit_test(test_forecast_of_less),
        cmocka_unit_test(test_place_of_hosts), cmocka_unit_test(test_place_of_nova),
        cmocka_unit_test(test_effect),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
