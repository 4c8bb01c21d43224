/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix of victims and aggressors: order, sums, and what has no place. Figures by hand.
 */
#include "config.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "base/json.h"
#include "cli/matrix.h"

/* The means beside are other ones. */
/* Figures of the newest window; the means beside them are no part of the matrix. */
#define PAIR(victim, id, aggressor, aggressor_id, ns, count, share, per_s)                         \
 "{\"victim\":{\"name\":\"" victim "\",\"id\":\"" id "\"},\"aggressor\":\"" aggressor              \
 "\",\"aggressor_id\":" aggressor_id ",\"ns\":" #ns ",\"count\":" #count                           \
 ",\"share\":9,\"count_per_s\":99,\"newest\":{\"share\":" #share ",\"count_per_s\":" #per_s "}}"

/* Two VMs are called b. */
static const char pairs[] = "[" PAIR("a", "1", "b", "\"2\"", 10, 1, 0.5, 3) "," PAIR(
    "a", "1", "host:user", "null", 20, 2, 0.25,
    40) "," PAIR("b", "2", "a", "\"1\"", 30, 3, 0.0,
                 1) "," PAIR("b", "3", "a", "\"1\"", 31, 3, 0.002,
                             2) "," PAIR("b", "3", "self", "null", 7, 0, 0.001,
                                         0) "," PAIR("b", "3", "b", "\"2\"", 1, 1, 0.1, 0.5) "]";

static json_object *
items_of(const char *text)
{
    json_object *items = vg_json_parse(text, strlen(text), SIZE_MAX, 8, NULL);

    assert_non_null(items);
    return items;
}

/* "HEADER HEADER\nname figure -\n": as it will be printed, but for the widths. */
static void
assert_matrix(const char *text, enum vg_matrix_of of, int width, int n_rows, const char *want)
{
    g_autoptr(json_object) items = items_of(text);
    g_autoptr(vg_matrix) matrix = vg_matrix_new(items, of, width, n_rows, true);
    g_autoptr(GString) got = g_string_new(NULL);

    for (guint i = 0; i < matrix->columns->len; i++)
        g_string_append_printf(got, "%s%s", i > 0 ? " " : "",
                               g_array_index(matrix->columns, struct vg_column, i).header);
    for (size_t r = 0; r < json_object_array_length(matrix->rows); r++) {
        json_object *row = json_object_array_get_idx(matrix->rows, r);
        for (guint i = 0; i < matrix->columns->len; i++) {
            const struct vg_column *column = &g_array_index(matrix->columns, struct vg_column, i);
            json_object *value = vg_output_member(row, column->member);
            g_string_append_c(got, i > 0 ? ' ' : '\n');
            if (value && column->cell == VG_CELL_SHARE)
                g_string_append_printf(got, "%.6g", json_object_get_double(value));
            else
                g_string_append(got, value ? json_object_get_string(value) : "-");
        }
    }
    assert_string_equal(got->str, want);
}

static void
test_all_of_it(void **state)
{
    (void)state;
    assert_matrix(pairs, VG_MATRIX_TIME, 0, 0,
                  "VM b host:user a self TOTAL\n"
                  "a 500 250 - - 750\n"
                  "b 100 - 2 1 103\n"
                  "b - - 0 - 0\n"
                  "TOTAL 600 250 2 1 853");
    assert_matrix(pairs, VG_MATRIX_COUNT, 0, 0,
                  "VM host:user b a self TOTAL\n"
                  "a 40 3 - - 43\n"
                  "b - 0.5 2 0 2.5\n"
                  "b - - 1 - 1\n"
                  "TOTAL 40 3.5 3 0 46.5");
    /* Its own threads are on the diagonal, whatever comes first. */
    assert_matrix("[" PAIR("a", "1", "self", "\"1\"", 9, 9, 0.3, 9) "," PAIR("b", "2", "a", "\"1\"",
                                                                             9, 9, 0.2, 9) "]",
                  VG_MATRIX_TIME, 0, 0, "VM a TOTAL\na 300 300\nb 200 200\nTOTAL 500 500");
    assert_matrix("[]", VG_MATRIX_TIME, 0, 0, "VM TOTAL");
}

static void
test_what_has_no_place(void **state)
{
    (void)state;
    /* "others" 6, " 600.00" 7, " host:user" 10, " 2.00" 5, " 1.00" 5 (self), " 853.00" 7: 40. */
    assert_matrix(pairs, VG_MATRIX_TIME, 40, 0,
                  "VM b host:user a self TOTAL\n"
                  "a 500 250 - - 750\nb 100 - 2 1 103\nb - - 0 - 0\nTOTAL 600 250 2 1 853");
    /* With " others" 7 in the place of two. */
    assert_matrix(pairs, VG_MATRIX_TIME, 39, 0,
                  "VM b host:user others TOTAL\n"
                  "a 500 250 - 750\nb 100 - 3 103\nb - - 0 0\nTOTAL 600 250 3 853");
    assert_matrix(pairs, VG_MATRIX_TIME, 5, 0,
                  "VM others TOTAL\na 750 750\nb 103 103\nb 0 0\nTOTAL 853 853");
    assert_matrix(pairs, VG_MATRIX_TIME, 5, 4,
                  "VM others TOTAL\na 750 750\nb 103 103\nb 0 0\nTOTAL 853 853");
    assert_matrix(pairs, VG_MATRIX_TIME, 5, 3,
                  "VM others TOTAL\na 750 750\nothers 103 103\nTOTAL 853 853");
    assert_matrix(pairs, VG_MATRIX_TIME, 5, 1, "VM others TOTAL\nothers 853 853\nTOTAL 853 853");
}

static void
test_odd_items(void **state)
{
    (void)state;
    assert_matrix(
        "[{},{\"victim\":7,\"aggressor\":[],\"newest\":{\"share\":-4},\"ns\":\"x\"},"
        "{\"victim\":{\"name\":\"\\u001b[2J\"},\"aggressor\":\"\\n\",\"newest\":{\"share\":1}}]",
        VG_MATRIX_TIME, 0, 0,
        "VM ? ? [ ] TOTAL\n?[2J 1000 - - 1000\n? - 0 0 0\nTOTAL 1000 0 0 1000");
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_of_it),
        cmocka_unit_test(test_what_has_no_place),
        cmocka_unit_test(test_odd_items),
    };
    setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests_name("matrix", tests, NULL, NULL);
}
