/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <glib.h>

#include "model/histogram.h"

#define MOST_ERROR 0.01

static int
compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static int64_t
exact_quantile(const int64_t *sorted, size_t n, double part)
{
    size_t rank = (size_t)ceil(part * (double)n);

    return sorted[CLAMP(rank, 1, n) - 1];
}

static void
assert_near(int64_t value, int64_t exact)
{
    double error = fabs((double)value - (double)exact);

    if (error > MOST_ERROR * (double)exact)
        fail_msg("%" G_GINT64_FORMAT " is too far from %" G_GINT64_FORMAT, value, exact);
}

static void
test_empty(void **state)
{
    const struct vg_histogram histogram = {0};
    (void)state;

    assert_int_equal(vg_histogram_quantile(&histogram, 0.5), 0);
    assert_int_equal(vg_histogram_mean(&histogram), 0);
}

static void
test_one_value_is_exact(void **state)
{
    static const int64_t values[] = {0, 1, 63, 64, 65, 127, 128, 1000000007, INT64_MAX};
    (void)state;

    for (size_t i = 0; i < G_N_ELEMENTS(values); i++) {
        struct vg_histogram histogram = {0};
        vg_histogram_add(&histogram, values[i]);
        assert_int_equal(vg_histogram_quantile(&histogram, 0.5), values[i]);
        assert_int_equal(vg_histogram_quantile(&histogram, 0.99), values[i]);
        assert_int_equal(vg_histogram_mean(&histogram), values[i]);
        vg_histogram_clear(&histogram);
    }
}

static void
test_negative_is_zero(void **state)
{
    struct vg_histogram histogram = {0};
    (void)state;

    vg_histogram_add(&histogram, -5);
    assert_int_equal(vg_histogram_quantile(&histogram, 1), 0);
    assert_int_equal(histogram.count, 1);
    vg_histogram_clear(&histogram);
}

/* Values over twelve powers of ten, against the sorted array. */
static void
test_quantiles_are_near(void **state)
{
    enum { VALUES = 20000 };
    static const double parts[] = {0, 0.01, 0.5, 0.9, 0.95, 0.99, 0.999, 1};
    static int64_t values[VALUES];
    struct vg_histogram histogram = {0};
    GRand *random = g_rand_new_with_seed(7);
    (void)state;

    for (size_t i = 0; i < VALUES; i++) {
        values[i] = (int64_t)pow(10, g_rand_double_range(random, 0, 12));
        vg_histogram_add(&histogram, values[i]);
    }
    qsort(values, VALUES, sizeof(values[0]), compare);
    for (size_t i = 0; i < G_N_ELEMENTS(parts); i++)
        assert_near(vg_histogram_quantile(&histogram, parts[i]),
                    exact_quantile(values, VALUES, parts[i]));
    assert_int_equal(histogram.min, values[0]);
    assert_int_equal(histogram.max, values[VALUES - 1]);
    vg_histogram_clear(&histogram);
    g_rand_free(random);
}

static void
test_merging_is_adding(void **state)
{
    struct vg_histogram all = {0}, parts[2] = {0}, sum = {0};
    (void)state;

    for (int64_t i = 1; i < 5000; i++) {
        vg_histogram_add(&all, i * i);
        vg_histogram_add(&parts[i % 2], i * i);
    }
    vg_histogram_merge(&sum, &parts[0]);
    vg_histogram_merge(&sum, &parts[1]);
    for (double part = 0; part <= 1; part += 0.05)
        assert_int_equal(vg_histogram_quantile(&sum, part), vg_histogram_quantile(&all, part));
    assert_int_equal(sum.count, all.count);
    assert_int_equal(sum.sum, all.sum);
    assert_int_equal(sum.min, 1);
    assert_int_equal(sum.max, 4999 * 4999);
    vg_histogram_clear(&all);
    vg_histogram_clear(&parts[0]);
    vg_histogram_clear(&parts[1]);
    vg_histogram_clear(&sum);
}

static void
test_reset(void **state)
{
    struct vg_histogram histogram = {0};
    (void)state;

    vg_histogram_add(&histogram, 100);
    vg_histogram_reset(&histogram);
    assert_int_equal(histogram.count, 0);
    assert_int_equal(vg_histogram_quantile(&histogram, 0.5), 0);
    vg_histogram_clear(&histogram);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_one_value_is_exact),
        cmocka_unit_test(test_negative_is_zero),
        cmocka_unit_test(test_quantiles_are_near),
        cmocka_unit_test(test_merging_is_adding),
        cmocka_unit_test(test_reset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
