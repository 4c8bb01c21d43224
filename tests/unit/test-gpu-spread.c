/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <glib.h>

#include "model/gpu-spread.h"

#define NOT_KNOWN INT64_C(77)

static void
add(struct gpu_spread *spread, int n, int64_t ns)
{
    for (int i = 0; i < n; i++)
        gpu_spread_add(spread, ns);
}

/* Old times count for less. */
static void
test_mean(void **state)
{
    struct gpu_spread spread = {0};

    (void)state;
    assert_int_equal(gpu_spread_mean(&spread), 0);
    add(&spread, 1, 10);
    add(&spread, 1, 30);
    assert_int_equal(gpu_spread_mean(&spread), 20);
    add(&spread, 5000, 1000);
    assert_in_range(gpu_spread_mean(&spread), 999, 1000);
}

static void
test_too_few(void **state)
{
    struct gpu_spread few = {0}, enough = {0};

    (void)state;
    add(&few, GPU_SPREAD_MIN - 1, 10);
    add(&enough, GPU_SPREAD_MIN, 10);
    assert_int_equal(gpu_spread_first_part(100, &few, &enough, NOT_KNOWN), NOT_KNOWN);
    assert_int_equal(gpu_spread_first_part(100, &enough, &few, NOT_KNOWN), NOT_KNOWN);
    assert_int_equal(gpu_spread_first_part(70, &few, &few, NOT_KNOWN), 70);
    assert_int_equal(gpu_spread_first_part(20, &enough, &enough, NOT_KNOWN), 10);
}

/* What is always the same is known, and the rest is the other part. */
static void
test_one_part_is_always_the_same(void **state)
{
    struct gpu_spread same = {0}, varies = {0};

    (void)state;
    add(&same, 100, 15000);
    for (int i = 0; i < 100; i++)
        gpu_spread_add(&varies, i % 2 == 0 ? 1000 : 9000000);
    assert_in_range(gpu_spread_first_part(515000, &same, &varies, NOT_KNOWN), 14999, 15001);
    assert_in_range(gpu_spread_first_part(515000, &varies, &same, NOT_KNOWN), 499999, 500001);
    assert_int_equal(gpu_spread_first_part(14000, &varies, &same, NOT_KNOWN), 0);
    assert_int_equal(gpu_spread_first_part(14000, &same, &varies, NOT_KNOWN), 14000);
    assert_int_equal(gpu_spread_first_part(0, &same, &same, NOT_KNOWN), 0);
}

static void
test_far_apart(void **state)
{
    struct gpu_spread first = {0}, second = {0};

    (void)state;
    add(&first, 4, INT64_MAX);
    add(&second, 4, 0);
    assert_in_range(gpu_spread_first_part(INT64_MAX, &first, &second, NOT_KNOWN), 0, INT64_MAX);
    assert_in_range(gpu_spread_first_part(1, &first, &second, NOT_KNOWN), 0, 1);
}

static double
square(double x)
{
    return x * x;
}

/* Two parts at random: it is nearer to the first one than all of the time, the time without the
 * mean of the other part, and the mean of the first one are, and not off to one side. */
static void
test_least_error(void **state)
{
    enum { N = 20000 };
    g_autoptr(GRand) rand = g_rand_new_with_seed(7);
    struct gpu_spread first = {0}, second = {0};
    double error = 0, squares = 0, of_whole = 0, of_rest = 0, of_mean = 0;

    (void)state;
    for (int i = 0; i < N; i++) {
        int64_t a = 1000000 + g_rand_int_range(rand, 0, 600000);
        int64_t b = 500000 + g_rand_int_range(rand, 0, 300000);
        if (i >= 256) {
            double part = (double)gpu_spread_first_part(a + b, &first, &second, NOT_KNOWN);
            error += part - (double)a;
            squares += square(part - (double)a);
            of_whole += square((double)b);
            of_rest += square((double)(b - gpu_spread_mean(&second)));
            of_mean += square((double)(a - gpu_spread_mean(&first)));
        }
        gpu_spread_add(&first, a);
        gpu_spread_add(&second, b);
    }
    assert_true(squares < 0.95 * of_rest);
    assert_true(squares < 0.3 * of_mean);
    assert_true(squares < 0.1 * of_whole);
    assert_true(error < 2000.0 * N && error > -2000.0 * N);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mean),
        cmocka_unit_test(test_too_few),
        cmocka_unit_test(test_one_part_is_always_the_same),
        cmocka_unit_test(test_far_apart),
        cmocka_unit_test(test_least_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
