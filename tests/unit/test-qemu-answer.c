/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers of QEMU's monitor. Those of QEMU 7.2 are as it gave them; the id is libvirt's.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "host/qemu-answer.h"

#define NOTHING_SAID "QEMU does not report what blocks a migration"

/* What QEMU 7.2 answers a word that it does not know. */
#define UNKNOWN_COMMAND                                                                            \
 "{\"id\":\"libvirt-17\",\"error\":{\"class\":\"CommandNotFound\","                                \
 "\"desc\":\"The command query-migrat has not been found\"}}"
#define UNKNOWN_PROPERTY                                                                           \
 "{\"error\": {\"class\": \"GenericError\", \"desc\": \"Property 'e1000.x' not found\"}}"

struct answer_case {
    const char *answer;
    const char *meaning; /* or NULL */
};

static void
check(char *(*read)(const char *answer), const struct answer_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        g_autofree char *meaning = read(cases[i].answer);
        if (g_strcmp0(meaning, cases[i].meaning) != 0)
            fail_msg("%s: '%s', not '%s'", cases[i].answer, meaning ? meaning : "(none)",
                     cases[i].meaning ? cases[i].meaning : "(none)");
    }
}

static void
test_reasons(void **state)
{
    static const struct answer_case cases[] = {
        {"{\"return\":{},\"id\":\"libvirt-17\"}", NULL},
        {"{\"return\":{\"status\":\"completed\",\"blocked-reasons\":[]}}", NULL},
        {"{\"return\": {\"blocked-reasons\": [\"Migration is disabled when using feature 'peer "
         "mode' in device 'ivshmem'\"]}}",
         "QEMU says: Migration is disabled when using feature 'peer mode' in device 'ivshmem'"},
        {"{\"return\":{\"blocked-reasons\":[\"one\",\"another\"]}}", "QEMU says: one; another"},
    };

    (void)state;
    check(vg_qemu_why_not_migrated, cases, G_N_ELEMENTS(cases));
}

/* None of them may be taken for an answer without reasons. */
static void
test_no_reasons_are_no_answer(void **state)
{
    static const struct answer_case cases[] = {
        {UNKNOWN_COMMAND, NOTHING_SAID ": The command query-migrat has not been found"},
        {"{\"error\":{\"class\":\"GenericError\"}}", NOTHING_SAID},
        {"{\"error\":\"no\"}", NOTHING_SAID},
        {"{\"return\":{},\"error\":{\"desc\":\"both\"}}", NOTHING_SAID ": both"},
        {"{}", NOTHING_SAID},
        {"[]", NOTHING_SAID},
        {"7", NOTHING_SAID},
        {"{\"return\":[]}", NOTHING_SAID},
        {"{\"return\":\"\"}", NOTHING_SAID},
        {"{\"return\":null}", NOTHING_SAID},
        {"{\"return\":{\"blocked-reasons\":\"one\"}}",
         "QEMU's reasons against a migration are not a list"},
        {"{\"return\":{\"blocked-reasons\":null}}",
         "QEMU's reasons against a migration are not a list"},
        {"", "QEMU's answer cannot be read"},
        {"null", "QEMU's answer cannot be read"},
        {"{\"return\":{}", "QEMU's answer cannot be read"},
        {"{\"return\":{}}{\"return\":{}}", "QEMU's answer cannot be read"},
    };

    (void)state;
    check(vg_qemu_why_not_migrated, cases, G_N_ELEMENTS(cases));
}

/* A reason that is no text is one all the same. */
static void
test_odd_reasons(void **state)
{
    static const struct answer_case cases[] = {
        {"{\"return\":{\"blocked-reasons\":[7]}}", "QEMU says: 7"},
        {"{\"return\":{\"blocked-reasons\":[null]}}", "QEMU says: an unnamed reason"},
        {"{\"return\":{\"blocked-reasons\":[\"\"]}}", "QEMU says: an unnamed reason"},
        {"{\"return\":{\"blocked-reasons\":[\"one\",\"\"]}}", "QEMU says: one; an unnamed reason"},
    };

    (void)state;
    check(vg_qemu_why_not_migrated, cases, G_N_ELEMENTS(cases));
}

static void
test_properties(void **state)
{
    static const struct answer_case cases[] = {
        {"{\"return\": \"52:54:00:12:34:56\"}", "52:54:00:12:34:56"},
        {"{\"return\":\"off\",\"id\":\"libvirt-18\"}", "off"},
        {"{\"return\": false}", "off"},
        {"{\"return\": true}", "on"},
        {UNKNOWN_PROPERTY, NULL},
        {"{\"return\":{}}", NULL},
        {"{\"return\":null}", NULL},
        {"{\"return\":0}", NULL},
        {"[]", NULL},
        {"", NULL},
    };

    (void)state;
    check(vg_qemu_property, cases, G_N_ELEMENTS(cases));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_no_reasons_are_no_answer),
        cmocka_unit_test(test_odd_reasons),
        cmocka_unit_test(test_properties),
    };

    return cmocka_run_group_tests_name("qemu-answer", tests, NULL, NULL);
}
