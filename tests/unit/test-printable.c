/* SPDX-License-Identifier: Apache-2.0
 *
 * What of a name reaches a terminal, and whether a shell gets back what was quoted.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "base/printable.h"

static void
test_text(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *shown;
    } cases[] = {
        {"", ""},
        {"vm-1 'a' \\ $x", "vm-1 'a' \\ $x"},
        {"J\xc3\xb6rg \xe6\x97\xa5", "J\xc3\xb6rg \xe6\x97\xa5"},
        {"a\nb\rc\td\x1b[2J\x7f", "a?b?c?d?[2J?"},
        {"\xc2\x80|\xc2\x9b"
         "2J|\xc2\x9f|\xc2\xa0",
         "?|?2J|?|\xc2\xa0"},                                       /* C1; U+00A0 is none */
        {"\xe2\x80\xa7\xe2\x80\xa8\xe2\x80\xa9", "\xe2\x80\xa7??"}, /* U+2027 to U+2029 */
        {"\xe2\x80\xaa\xe2\x80\xae\xe2\x80\xaf", "??\xe2\x80\xaf"}, /* U+202A, 202E, 202F */
        {"\xe2\x81\xa5\xe2\x81\xa6\xe2\x81\xa9", "\xe2\x81\xa5??"}, /* U+2065, 2066, 2069 */
        {"\x9b\xff\xe2\x80", "????"},                               /* no UTF-8 */
        {"\xed\xa0\x80", "???"},                                    /* a surrogate */
        {"\xe2\x80\x8b\xe2\x80\x8f\xd8\x9c\xef\xbb\xbf", "????"},   /* zero width, marks */
        {"\xf0\x9f\x98\x80\xf3\xa0\x81\xa1", "\xf0\x9f\x98\x80?"},  /* a tag character */
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *shown = vg_printable_text(cases[i].text);
        assert_string_equal(shown, cases[i].shown);
    }
}

static void
test_line(void **state)
{
    (void)state;
    GString *text = g_string_new("head\n");
    vg_printable_append_line(text, "%d. Move %s", 1, "a\n2. Move b");
    assert_string_equal(text->str, "head\n1. Move a?2. Move b\n");
    g_string_free(text, TRUE);
}

static void
test_quote(void **state)
{
    (void)state;
    static const struct {
        const char *argument;
        const char *quoted;
    } cases[] = {
        {"a b", "'a b'"},
        {"it's", "'it'\\''s'"},
        {"J\xc3\xb6rg", "'J\xc3\xb6rg'"},
        {"a\nb", "$'a\\012b'"},
        {"\xc2\x9b'\\1$x", "$'\\302\\233\\047\\1341$x'"},
        {"J\xc3\xb6rg\x7f", "$'J\\303\\266rg\\177'"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *quoted = vg_printable_quote(cases[i].argument);
        assert_string_equal(quoted, cases[i].quoted);
    }
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_line),
        cmocka_unit_test(test_quote),
    };
    return cmocka_run_group_tests_name("printable", tests, NULL, NULL);
}
