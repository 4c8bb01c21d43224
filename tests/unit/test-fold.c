/* SPDX-License-Identifier: Apache-2.0
 *
 * Where lines break that are too long for a terminal.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "cli/fold.h"

static void
test_fold(void **state)
{
    static const struct {
        const char *text;
        size_t indent, width;
        const char *expected;
    } cases[] = {
        {"one two three", 0, 0, "one two three"},
        {"one two three", 0, 13, "one two three"},
        {"one two three", 0, 12, "one two\nthree"},
        {"one two three", 0, 7, "one two\nthree"},
        {"one two three", 0, 6, "one\ntwo\nthree"},
        {"why: one two", 5, 10, "why: one\n     two"},
        /* Blanks at a break are gone, others stay. */
        {"a  b    c", 0, 6, "a  b  \nc"},
        {"", 0, 5, ""},
        {"one\ntwo three", 0, 5, "one\ntwo\nthree"},
        /* In words, behind a mark where there is one. */
        {"instance-0000001f", 0, 10, "instance-\n0000001f"},
        {"abcdefghij", 0, 4, "abcd\nefgh\nij"},
        {"/v1/migrations/{id}", 0, 12, "/v1/\nmigrations/\n{id}"},
        /* Two columns each, and one that takes none. */
        {"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e", 0, 5, "\xe6\x97\xa5\xe6\x9c\xac\n\xe8\xaa\x9e"},
        {"e\xcc\x81"
         "e",
         0, 1,
         "e\xcc\x81\n"
         "e"},
        /* A character that does not fit is there all the same. */
        {"\xe6\x97\xa5", 0, 1, "\xe6\x97\xa5"},
        /* A text keeps some columns, however far it is indented. */
        {"x abcdefghi", 20, 10, "x\n                    abcdef\n                    ghi"},
    };

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GString) text = g_string_new("<");
        vg_fold_append(text, cases[i].text, cases[i].indent, cases[i].width);
        assert_string_equal(text->str + 1, cases[i].expected);
    }
}

static void
test_whole_words(void **state)
{
    g_autoptr(GString) text = g_string_new(NULL);

    (void)state;
    vg_fold_append_words(text, "a /run/vgpud/vgpud.sock is there", 0, 6);
    assert_string_equal(text->str, "a\n/run/vgpud/vgpud.sock\nis\nthere");
}

static void
test_columns(void **state)
{
    (void)state;
    assert_int_equal(vg_fold_columns(""), 0);
    assert_int_equal(vg_fold_columns("abc"), 3);
    assert_int_equal(vg_fold_columns("\xc3\xa4"), 1);
    assert_int_equal(vg_fold_columns("e\xcc\x81"), 1);
    assert_int_equal(vg_fold_columns("\xe6\x97\xa5"), 2);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fold),
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_whole_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
