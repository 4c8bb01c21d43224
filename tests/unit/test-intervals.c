/* SPDX-License-Identifier: Apache-2.0
 *
 * What pictures keep of long recordings: intervals that are put together, and sums over steps that
 * become longer. Nothing may get lost on the way, or be more than it was.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "picture/intervals.h"
#include "picture/step-sums.h"
#include "tests/unit/chance.h"

#define BEGIN_NS   INT64_C(7000000123)
#define IDENTITIES 3
#define KINDS      2

static const struct vg_interval *
at(const GArray *array, guint i)
{
    return &g_array_index(array, struct vg_interval, i);
}

static int64_t
sum_of(const GArray *array, uint32_t row, uint32_t identity, unsigned int kind)
{
    int64_t sum = 0;

    for (guint i = 0; i < array->len; i++) {
        const struct vg_interval *interval = at(array, i);
        assert_true(interval->begin_ns >= BEGIN_NS && interval->end_ns > interval->begin_ns);
        if (interval->row == row && interval->identity == identity && interval->kind == kind)
            sum += interval->end_ns - interval->begin_ns;
    }
    return sum;
}

static int
compare_times(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;

    return x[0] != y[0] ? (x[0] > y[0] ? 1 : -1) : (x[1] > y[1]) - (x[1] < y[1]);
}

/* The most of a row at once. */
static int64_t
depth_of(const GArray *array, uint32_t row)
{
    g_autoptr(GArray) edges = g_array_new(FALSE, FALSE, 2 * sizeof(int64_t));
    int64_t depth = 0, most = 0;

    for (guint i = 0; i < array->len; i++) {
        const int64_t pair[2][2] = {{at(array, i)->begin_ns, 1}, {at(array, i)->end_ns, -1}};
        if (at(array, i)->row == row)
            g_array_append_vals(edges, pair, 2);
    }
    g_array_sort(edges, compare_times);
    for (guint i = 0; i < edges->len; i++) {
        depth += ((const int64_t *)(void *)edges->data)[2 * i + 1];
        most = MAX(most, depth);
    }
    return most;
}

/* Row 0: one after the other. Row 1: up to four at once. In the order of their ends. */
static GArray *
make_intervals(GRand *random, guint n)
{
    GArray *made = g_array_new(FALSE, FALSE, sizeof(struct vg_interval));
    int64_t free_ns[5] = {BEGIN_NS, BEGIN_NS, BEGIN_NS, BEGIN_NS, BEGIN_NS};

    while (made->len < n) {
        int lane = 0;
        for (int i = 1; i < 5; i++)
            lane = free_ns[i] < free_ns[lane] ? i : lane;
        int64_t begin_ns =
            free_ns[lane] + (g_rand_int(random) % 2 ? g_rand_int_range(random, 0, 5000) : 0);
        int64_t length_ns = g_rand_int_range(random, 1, g_rand_int(random) % 50 ? 3000 : 10000000);
        const struct vg_interval interval = {
            .begin_ns = begin_ns,
            .end_ns = begin_ns + length_ns,
            .row = lane == 0 ? 0 : 1,
            .identity = (uint32_t)g_rand_int_range(random, 0, IDENTITIES),
            .kind = (uint16_t)g_rand_int_range(random, 0, KINDS),
        };
        free_ns[lane] = interval.end_ns;
        g_array_append_val(made, interval);
    }
    return made;
}

static void
check_intervals(GRand *random, guint n, size_t max)
{
    g_autoptr(GArray) made = make_intervals(random, n);
    g_autoptr(vg_intervals) intervals = vg_intervals_new(BEGIN_NS, max);

    for (guint i = 0; i < made->len; i++) {
        vg_intervals_add(intervals, at(made, i));
        assert_true(vg_intervals_all(intervals)->len <= max);
    }
    vg_intervals_finish(intervals);
    const GArray *kept = vg_intervals_all(intervals);
    assert_int_equal(vg_intervals_were_joined(intervals), n > max);
    assert_int_equal(vg_intervals_left_out(intervals), 0);
    for (uint32_t row = 0; row < 2; row++) {
        assert_true(depth_of(kept, row) <= depth_of(made, row));
        for (uint32_t who = 0; who < IDENTITIES; who++) {
            for (unsigned int kind = 0; kind < KINDS; kind++)
                assert_int_equal(sum_of(kept, row, who, kind), sum_of(made, row, who, kind));
        }
    }
}

static void
test_intervals(void **state)
{
    GRand *random = chance_rand();
    (void)state;

    for (int i = 0; i < 8; i++) {
        check_intervals(random, 900, 1000);
        check_intervals(random, 1000, 1000);
        check_intervals(random, 1001, 1000);
        check_intervals(random, 30000, 1000);
    }
    g_rand_free(random);
}

/* Nothing can be put together: it is left out, and counted. */
static void
test_too_many_rows(void **state)
{
    g_autoptr(vg_intervals) intervals = vg_intervals_new(0, 100);
    (void)state;

    for (uint32_t i = 0; i < 1000; i++) {
        const struct vg_interval interval = {0, 1000, i, 0, 0, false};
        vg_intervals_add(intervals, &interval);
    }
    vg_intervals_finish(intervals);
    assert_true(vg_intervals_all(intervals)->len <= 100);
    assert_int_equal(vg_intervals_left_out(intervals) + vg_intervals_all(intervals)->len, 1000);
}

/* ---- steps ---- */

static void
test_step_sums(void **state)
{
    static const int64_t lengths[] = {1, 100, 5000, 1000000, INT64_C(3600000000000)};
    GRand *random = chance_rand();
    (void)state;

    for (size_t i = 0; i < G_N_ELEMENTS(lengths); i++) {
        g_autoptr(vg_step_sums) sums = vg_step_sums_new(BEGIN_NS);
        unsigned int all = vg_step_sums_add_series(sums), half = vg_step_sums_add_series(sums);
        int64_t t_ns = BEGIN_NS, end_ns = BEGIN_NS + lengths[i], step_ns;
        double values[VG_STEPS_MAX], total = 0;
        while (t_ns < end_ns) {
            int64_t until = t_ns + 1 + (int64_t)(g_rand_double(random) * (double)lengths[i] / 50);
            until = MIN(until, end_ns);
            vg_step_sums_spread(sums, all, t_ns, until, (double)(until - t_ns));
            t_ns = until;
        }
        vg_step_sums_spread(sums, half, BEGIN_NS, BEGIN_NS + lengths[i] / 2,
                            (double)(lengths[i] / 2));
        size_t n = vg_step_sums_steps(sums, end_ns, &step_ns);
        assert_true(n >= 1 && n < VG_STEPS_MAX / 2 + 1);
        assert_true(lengths[i] < 1000 || n > 100);
        assert_true((int64_t)n * step_ns >= lengths[i] && ((int64_t)n - 1) * step_ns < lengths[i]);
        vg_step_sums_read(sums, all, end_ns, n, step_ns, values);
        for (size_t k = 0; k < n; k++) {
            assert_true(values[k] <= (double)step_ns * 1.000001);
            assert_true(k == n - 1 || values[k] >= (double)step_ns * 0.999999);
            total += values[k];
        }
        assert_true(fabs(total - (double)lengths[i]) <= (double)lengths[i] * 1e-9);
        vg_step_sums_read(sums, half, end_ns, n, step_ns, values);
        for (total = 0; n > 0; n--)
            total += values[n - 1];
        assert_true(fabs(total - (double)(lengths[i] / 2)) <= (double)lengths[i] * 1e-9);
    }
    g_rand_free(random);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_intervals),
        cmocka_unit_test(test_too_many_rows),
        cmocka_unit_test(test_step_sums),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
