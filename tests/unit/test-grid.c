/* SPDX-License-Identifier: Apache-2.0
 *
 * That what is put on a grid stays where it belongs, and what sparklines show. How many columns a
 * character has follows from Unicode (wide: East Asian and emoji), not from the code under test.
 */
#include "config.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "cli/grid.h"
#include "cli/sparkline.h"

#define NIHON "\xe6\x97\xa5\xe6\x9c\xac" /* two wide characters */
#define DOTS  "\xe2\x80\xa6"

static void
assert_row(const vg_grid *grid, int row, const char *want)
{
    g_autofree char *text = vg_grid_text(grid, row);

    assert_string_equal(text, want);
}

static void
test_put(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int width;
        bool right;
        const char *shown; /* between bars */
    } cases[] = {
        {"ab", 4, false, "|ab  |"},
        {"ab", 4, true, "|  ab|"},
        {"abcd", 4, true, "|abcd|"},
        {"abcde", 4, false, "|abc" DOTS "|"},
        {"abcde", 4, true, "|abc" DOTS "|"},
        {"", 2, false, "|  |"},
        {"abc", 1, false, "|" DOTS "|"},
        {NIHON, 4, false, "|" NIHON "|"},
        {NIHON, 5, true, "| " NIHON "|"},
        {NIHON, 3, false, "|\xe6\x97\xa5" DOTS "|"},
        /* The wide character does not fit beside the ellipsis. */
        {NIHON "\xe8\xaa\x9e", 4, false, "|\xe6\x97\xa5" DOTS " |"},
        {"e\xcc\x81x", 3, false, "|e\xcc\x81x |"},
        /* Combining characters without end, and without a start. */
        {"e\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81\xcc\x81x", 2, false,
         "|e\xcc\x81\xcc\x81\xcc\x81x|"},
        {"\xcc\x81x", 2, false, "|x |"},
        {"a\nb\033[2Jc", 8, false, "|a?b?[2Jc|"},
        {"\xff\xe2\x80\xae", 3, false, "|?? |"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(vg_grid) grid = vg_grid_new(1, cases[i].width + 2, true);
        vg_grid_put(grid, 0, 0, 1, false, VG_ATTR_PLAIN, "|");
        vg_grid_put(grid, 0, cases[i].width + 1, 1, false, VG_ATTR_PLAIN, "|");
        vg_grid_put(grid, 0, 1, cases[i].width, cases[i].right, VG_ATTR_BOLD, cases[i].text);
        assert_row(grid, 0, cases[i].shown);
        assert_int_equal(vg_grid_row(grid, 0)[1].attr, VG_ATTR_BOLD);
    }
}

static void
test_without_utf8(void **state)
{
    (void)state;
    g_autoptr(vg_grid) grid = vg_grid_new(1, 8, false);

    vg_grid_put(grid, 0, 0, 8, false, VG_ATTR_PLAIN, "J\xc3\xb6rg " NIHON);
    assert_row(grid, 0, "J?rg ??");
    vg_grid_put(grid, 0, 0, 4, false, VG_ATTR_PLAIN, "abcdef");
    assert_row(grid, 0, "abc~ ??");
}

static void
test_outside(void **state)
{
    (void)state;
    g_autoptr(vg_grid) grid = vg_grid_new(2, 5, true);
    static const int places[][2] = {{-1, 0}, {2, 0}, {0, 5}, {0, -3}};

    for (size_t i = 0; i < G_N_ELEMENTS(places); i++)
        vg_grid_put(grid, places[i][0], places[i][1], 3, false, VG_ATTR_PLAIN, "xyz");
    assert_row(grid, 0, "");
    assert_row(grid, 1, "");
    vg_grid_put(grid, 0, 3, 100, false, VG_ATTR_PLAIN, "xyz");
    assert_row(grid, 0, "   x" DOTS);
    assert_int_equal(vg_grid_print(grid, 1, 2, VG_ATTR_PLAIN, "%s%d", NIHON, 1), 7);
    assert_row(grid, 1, "  \xe6\x97\xa5" DOTS);
    vg_grid_set_attr(grid, 7, VG_ATTR_BAD);
    g_autoptr(vg_grid) nothing = vg_grid_new(0, -4, true);
    assert_int_equal(vg_grid_rows(nothing), 1);
    assert_int_equal(vg_grid_columns(nothing), 1);
}

/* Half a wide character is none. */
static void
test_wide_characters_that_are_cut(void **state)
{
    (void)state;
    g_autoptr(vg_grid) grid = vg_grid_new(1, 6, true);

    vg_grid_print(grid, 0, 0, VG_ATTR_PLAIN, "a" NIHON "b");
    vg_grid_print(grid, 0, 2, VG_ATTR_PLAIN, "x");
    assert_row(grid, 0,
               "a x\xe6\x9c\xac"
               "b");
    vg_grid_print(grid, 0, 2, VG_ATTR_PLAIN, "yz");
    assert_row(grid, 0, "a yz b");
    for (int i = 0; i < 6; i++)
        assert_int_not_equal(vg_grid_row(grid, 0)[i].text[0], 0);
}

static void
test_copy(void **state)
{
    (void)state;
    g_autoptr(vg_grid) from = vg_grid_new(4, 3, true);
    g_autoptr(vg_grid) to = vg_grid_new(2, 3, true);

    for (int row = 0; row < 4; row++)
        vg_grid_print(from, row, 0, VG_ATTR_PLAIN, "r%d", row);
    vg_grid_copy(to, 0, from, 3, 5);
    assert_row(to, 0, "r3");
    assert_row(to, 1, "");
    vg_grid_copy(to, 0, from, 1, 2);
    assert_row(to, 0, "r1");
    assert_row(to, 1, "r2");
}

static void
test_sparkline(void **state)
{
    (void)state;
    const double values[] = {0, 0.5, 1, (double)NAN, 4, 8, 7.9};
    g_autofree char *blocks = vg_spark_text(values, G_N_ELEMENTS(values), 8, true);
    g_autofree char *ascii = vg_spark_text(values, G_N_ELEMENTS(values), 8, false);
    g_autofree char *flat = vg_spark_text(values, 2, 0, false);

    assert_string_equal(blocks, "\xe2\x96\x81\xe2\x96\x81\xe2\x96\x82 \xe2\x96\x85\xe2\x96\x88"
                                "\xe2\x96\x88");
    assert_string_equal(ascii, "__. =##");
    assert_string_equal(flat, "__");
    assert_true(vg_spark_max(values, G_N_ELEMENTS(values)) == 8);
    assert_true(vg_spark_max(values, 0) == 0);
}

static void
test_resample(void **state)
{
    (void)state;
    /* A gap from 30 to 50, a half covered part, a point that began before. */
    const struct vg_spark_point points[] = {
        {-10, 10, 2}, {10, 15, 1}, {15, 20, 3}, {20, 30, 4}, {50, 60, 6}, {60, 95, 1}, {99, 300, 9},
    };
    const double want[] = {2, 2, 4, (double)NAN, (double)NAN, 6, 1, 1, 1, (1 * 5 + 9 * 1) / 6.0};
    double got[10];
    g_autoptr(GArray) array = g_array_new(FALSE, FALSE, sizeof(struct vg_spark_point));

    g_array_append_vals(array, points, G_N_ELEMENTS(points));
    vg_spark_resample(array, 0, 100, got, 10);
    for (int i = 0; i < 10; i++)
        assert_true(isnan(want[i]) ? isnan(got[i]) : fabs(got[i] - want[i]) < 1e-9);
    /* A point that is wider than the parts, and no time at all. */
    vg_spark_resample(array, 60, 95, got, 7);
    for (int i = 0; i < 7; i++)
        assert_true(fabs(got[i] - 1) < 1e-9);
    vg_spark_resample(array, 100, 100, got, 3);
    assert_true(isnan(got[0]) && isnan(got[2]));
    vg_spark_resample(NULL, 0, 100, got, 3);
    assert_true(isnan(got[1]));
    vg_spark_resample(array, -(INT64_C(1) << 62), INT64_C(1) << 62, got, 3);
    assert_true(isnan(got[0]) && isnan(got[2]));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put),      cmocka_unit_test(test_without_utf8),
        cmocka_unit_test(test_outside),  cmocka_unit_test(test_wide_characters_that_are_cut),
        cmocka_unit_test(test_copy),     cmocka_unit_test(test_sparkline),
        cmocka_unit_test(test_resample),
    };
    setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests_name("grid", tests, NULL, NULL);
}
