/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores with values worked out by hand: half-lives that are powers of two, correlations of
 * sequences whose answer is known.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "model/score.h"

#define S INT64_C(1000000000)

static const struct vg_score_config config = {
    .half_life_ns = 60 * S,
    .cpu_enter = 0.3,
    .cpu_leave = 0.2,
    .gpu_enter = 0.3,
    .gpu_leave = 0.2,
    .alternating_enter = -0.5,
    .alternating_leave = -0.3,
    .alternating_mean = 0.1,
    .alternating_windows = 30,
};

static void
assert_near(double value, double expected)
{
    if (fabs(value - expected) > 1e-6)
        fail_msg("%.9f is not %.9f", value, expected);
}

static enum vg_vm_class
live_class(const vg_score *score)
{
    struct vg_score_reading reading;
    vg_score_read_live(score, &reading);
    return reading.vm_class;
}

static void
test_ewma(void **state)
{
    (void)state;
    g_autoptr(vg_score) score = vg_score_new(&config);
    struct vg_score_reading reading;

    vg_score_read_live(score, &reading);
    assert_near(reading.cpu_intensity, 0);
    assert_int_equal(reading.vm_class, VG_CLASS_IDLE);
    assert_false(reading.gpu_known);

    vg_score_feed(score, 60 * S, 0.8, 0, false); /* starts at its first sample */
    vg_score_read_live(score, &reading);
    assert_near(reading.cpu_intensity, 0.8);
    vg_score_feed(score, 60 * S, 0, 0, false); /* half way */
    vg_score_read_live(score, &reading);
    assert_near(reading.cpu_intensity, 0.4);
    vg_score_feed(score, 120 * S, 1, 0, false); /* three quarters of the way from 0.4 to 1 */
    vg_score_read_live(score, &reading);
    assert_near(reading.cpu_intensity, 0.85);
    assert_false(reading.gpu_known);
}

static void
test_weight(void **state)
{
    (void)state;
    assert_near(vg_ewma_weight(60 * S, 60 * S), 0.5);
    assert_near(vg_ewma_weight(30 * S, 60 * S), 1 - sqrt(0.5));
    assert_near(vg_ewma_weight(0, 60 * S), 0);
    assert_near(vg_ewma_weight(S, 0), 1);
    assert_near(vg_gpu_intensity(250, 1000), 0.25);
    assert_near(vg_gpu_intensity(2000, 1000), 1);
    assert_near(vg_gpu_intensity(5, 0), 0);
}

static void
test_unknown_gpu(void **state)
{
    (void)state;
    g_autoptr(vg_score) score = vg_score_new(&config);
    struct vg_score_reading reading;
    vg_score_feed(score, S, 0, 0.9, true);
    vg_score_feed(score, 1000 * S, 0, 0, false); /* nobody looked: no news */
    vg_score_read_live(score, &reading);
    assert_true(reading.gpu_known);
    assert_near(reading.gpu_intensity, 0.9);
    assert_int_equal(reading.vm_class, VG_CLASS_GPU);
}

/* The enter thresholds alone decide, whatever the live flags say. */
static void
test_class_of_mean(void **state)
{
    (void)state;
    g_autoptr(vg_score) score = vg_score_new(&config);
    vg_score_feed(score, S, 0.9, 0.9, true);
    vg_score_feed(score, S, 0.25, 0.25, true);
    assert_int_equal(live_class(score), VG_CLASS_MIXED);
    assert_int_equal(vg_score_class_of_mean(score, 0.29, 0.29), VG_CLASS_IDLE);
    assert_int_equal(vg_score_class_of_mean(score, 0.30, 0.29), VG_CLASS_CPU);
    assert_int_equal(vg_score_class_of_mean(score, 0.29, 0.30), VG_CLASS_GPU);
    assert_int_equal(vg_score_class_of_mean(score, 0.30, 0.30), VG_CLASS_MIXED);
}

static void
test_bad_input(void **state)
{
    (void)state;
    g_autoptr(vg_score) score = vg_score_new(&config);
    struct vg_score_reading reading;
    vg_score_feed(score, 0, 1, 1, true);
    vg_score_feed(score, -1, 1, 1, true);
    vg_score_feed(score, S, (double)NAN, 1, true);
    vg_score_read_live(score, &reading);
    assert_near(reading.cpu_intensity, 0);
    assert_false(reading.gpu_known);
    vg_score_feed(score, S, 7, -3, true);
    vg_score_read_live(score, &reading);
    assert_near(reading.cpu_intensity, 1);
    assert_near(reading.gpu_intensity, 0);
    vg_score_feed(score, S, 1, (double)NAN, true);
    vg_score_read_live(score, &reading);
    assert_near(reading.gpu_intensity, 0);
}

/* Windows far longer than the half-life: the EWMA is the last value. */
static void
test_hysteresis(void **state)
{
    (void)state;
    static const struct {
        double cpu;
        double gpu;
        enum vg_vm_class expected;
    } steps[] = {
        {0.29, 0.29, VG_CLASS_IDLE},  {0.30, 0.29, VG_CLASS_CPU},  {0.21, 0.29, VG_CLASS_CPU},
        {0.25, 0.31, VG_CLASS_MIXED}, {0.19, 0.25, VG_CLASS_GPU},  {0.29, 0.21, VG_CLASS_GPU},
        {0.29, 0.19, VG_CLASS_IDLE},  {0.29, 0.29, VG_CLASS_IDLE},
    };
    g_autoptr(vg_score) score = vg_score_new(&config);
    for (size_t i = 0; i < G_N_ELEMENTS(steps); i++) {
        vg_score_feed(score, 60000 * S, steps[i].cpu, steps[i].gpu, true);
        if (live_class(score) != steps[i].expected)
            fail_msg("step %zu: %s", i, vg_vm_class_names[live_class(score)]);
    }
}

/* CPU 0.8/0.2 against GPU 0.2/0.8, turn by turn: correlation exactly -1. */
static void
test_alternating(void **state)
{
    (void)state;
    g_autoptr(vg_score) score = vg_score_new(&config);
    for (int i = 0; i < 29; i++) {
        vg_score_feed(score, S, i % 2 ? 0.2 : 0.8, i % 2 ? 0.8 : 0.2, true);
        assert_int_not_equal(live_class(score), VG_CLASS_ALTERNATING);
    }
    vg_score_feed(score, S, 0.2, 0.8, true); /* the 30th */
    assert_int_equal(live_class(score), VG_CLASS_ALTERNATING);
    assert_int_equal(vg_score_class_of_mean(score, 0.5, 0.5), VG_CLASS_ALTERNATING);
}

/* Of 100 windows n pairs are in step (+) and the rest against it (-): with equal halves of high and
 * low values the correlation is (in step - against) / all. */
static void
feed_blend(vg_score *score, int against, int all)
{
    for (int i = 0; i < all; i++) {
        bool high = i % 2;
        bool opposed = i / 2 < against / 2;
        vg_score_feed(score, S, high ? 0.8 : 0.2, high != opposed ? 0.8 : 0.2, true);
    }
}

static void
test_alternating_hysteresis(void **state)
{
    (void)state;
    g_autoptr(vg_score) never = vg_score_new(&config);
    feed_blend(never, 220, 300); /* r = (80 - 220) / 300 = -0.467, but passes -1 on the way */
    assert_int_equal(live_class(never), VG_CLASS_ALTERNATING); /* kept: below -0.3 */
    /* no history: -0.467 is above -0.5 */
    assert_int_equal(vg_score_class_of_mean(never, 0.5, 0.5), VG_CLASS_MIXED);

    g_autoptr(vg_score) left = vg_score_new(&config);
    feed_blend(left, 180, 300); /* r = (120 - 180) / 300 = -0.2 */
    assert_int_equal(live_class(left), VG_CLASS_MIXED);

    /* The threshold on both sides of -0.4667. */
    for (int i = 0; i < 2; i++) {
        struct vg_score_config near = config;
        near.alternating_enter = i == 0 ? -0.466 : -0.467;
        g_autoptr(vg_score) score = vg_score_new(&near);
        feed_blend(score, 220, 300);
        assert_int_equal(vg_score_class_of_mean(score, 0.5, 0.5),
                         i == 0 ? VG_CLASS_ALTERNATING : VG_CLASS_MIXED);
    }
}

static void
test_alternating_needs_both(void **state)
{
    (void)state;
    g_autoptr(vg_score) score = vg_score_new(&config);
    for (int i = 0; i < 100; i++) /* GPU mean 0.09 */
        vg_score_feed(score, S, i % 2 ? 0.2 : 0.8, i % 2 ? 0.18 : 0, true);
    assert_int_equal(live_class(score), VG_CLASS_CPU);
}

/* The ring forgets: after 300 windows in step nothing of the alternation is left. */
static void
test_bounded(void **state)
{
    (void)state;
    g_autoptr(vg_score) score = vg_score_new(&config);
    feed_blend(score, 300, 300);
    assert_int_equal(live_class(score), VG_CLASS_ALTERNATING);
    feed_blend(score, 0, VG_SCORE_WINDOWS_MAX);
    assert_int_equal(live_class(score), VG_CLASS_MIXED);
    g_autoptr(vg_score) flat = vg_score_new(&config);
    for (int i = 0; i < 400; i++)
        vg_score_feed(flat, S, 0.1, 0.7, true);
    assert_int_equal(live_class(flat), VG_CLASS_GPU);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ewma),
        cmocka_unit_test(test_weight),
        cmocka_unit_test(test_unknown_gpu),
        cmocka_unit_test(test_class_of_mean),
        cmocka_unit_test(test_bad_input),
        cmocka_unit_test(test_hysteresis),
        cmocka_unit_test(test_alternating),
        cmocka_unit_test(test_alternating_hysteresis),
        cmocka_unit_test(test_alternating_needs_both),
        cmocka_unit_test(test_bounded),
    };
    return cmocka_run_group_tests_name("score", tests, NULL, NULL);
}
