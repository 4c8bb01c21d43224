/* SPDX-License-Identifier: Apache-2.0
 *
 * Configuration: every type, every way to be wrong, and that the dump reads back.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "base/conf.h"
#include "base/error.h"
#include "policy/policy-conf.h"

struct sample {
    double ratio;
    int64_t count;
    bool enabled;
    int64_t wait_ns;
    char *label;
    int color;
};

static const char *const colors[] = {"red", "green", NULL};

static const struct vg_conf_key keys[] = {
    {"a", "ratio", VG_CONF_DOUBLE, offsetof(struct sample, ratio), "0.25", 0, 1, NULL, "Ratio."},
    {"a", "count", VG_CONF_INT, offsetof(struct sample, count), "7", -5, 100, NULL, "Count."},
    {"a", "enabled", VG_CONF_BOOL, offsetof(struct sample, enabled), "no", 0, 0, NULL, "On."},
    {"b", "wait", VG_CONF_DURATION, offsetof(struct sample, wait_ns), "90s", 0, 7200, NULL,
     "Wait."},
    {"b", "label", VG_CONF_STRING, offsetof(struct sample, label), "", 0, 8, NULL, "Label."},
    {"b", "color", VG_CONF_ENUM, offsetof(struct sample, color), "green", 0, 0, colors, "Color."},
};

static int
parse(const char *text, struct sample *sample, GError **err)
{
    return vg_conf_parse(keys, G_N_ELEMENTS(keys), NULL, text, strlen(text), sample, err);
}

static void
test_defaults(void **state)
{
    (void)state;
    struct sample sample = {0};
    vg_conf_defaults(keys, G_N_ELEMENTS(keys), &sample);
    assert_true(sample.ratio == 0.25);
    assert_int_equal(sample.count, 7);
    assert_false(sample.enabled);
    assert_true(sample.wait_ns == INT64_C(90000000000));
    assert_string_equal(sample.label, "");
    assert_int_equal(sample.color, 1);
    vg_conf_clear(keys, G_N_ELEMENTS(keys), &sample);
    assert_null(sample.label);
}

static void
test_values(void **state)
{
    (void)state;
    struct sample sample = {0};
    vg_conf_defaults(keys, G_N_ELEMENTS(keys), &sample);
    assert_int_equal(parse("# comment\n[a]\nratio = 1 \ncount=-5\nenabled=ON\n"
                           "[b]\nwait=2h\nlabel=x\\sy\ncolor=red\n",
                           &sample, NULL),
                     0);
    assert_true(sample.ratio == 1.0);
    assert_int_equal(sample.count, -5);
    assert_true(sample.enabled);
    assert_true(sample.wait_ns == INT64_C(7200000000000));
    assert_string_equal(sample.label, "x y");
    assert_int_equal(sample.color, 0);

    /* An empty text changes nothing. */
    assert_int_equal(parse("", &sample, NULL), 0);
    assert_int_equal(sample.count, -5);

    /* What is written last counts, and nothing leaks. */
    assert_int_equal(
        parse("[b]\nlabel=one\nlabel=two\n[a]\ncount=1\n[b]\nlabel=three\n", &sample, NULL), 0);
    assert_string_equal(sample.label, "three");
    vg_conf_clear(keys, G_N_ELEMENTS(keys), &sample);
}

static void
test_durations(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ns;
    } cases[] = {
        {"[b]\nwait=5", INT64_C(5000000000)},
        {"[b]\nwait=1.5s", 1500000000},
        {"[b]\nwait=250ms", 250000000},
        {"[b]\nwait=3us", 3000},
        {"[b]\nwait=17ns", 17},
        {"[b]\nwait=10 min", INT64_C(600000000000)},
        {"[b]\nwait=0.05d", INT64_C(4320000000000)},
        {"[b]\nwait=0", 0},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct sample sample = {0};
        vg_conf_defaults(keys, G_N_ELEMENTS(keys), &sample);
        assert_int_equal(parse(cases[i].text, &sample, NULL), 0);
        assert_true(sample.wait_ns == cases[i].ns);
        vg_conf_clear(keys, G_N_ELEMENTS(keys), &sample);
    }
}

/* Each is refused, the message names what is wrong, and nothing was taken over. */
static void
test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *message;
    } cases[] = {
        {"[c]\nx=1", "unknown group [c]"},
        {"[a]\nratios=1", "unknown key 'ratios' in [a]"},
        {"[a]\nratio[de]=1", "unknown key 'ratio[de]' in [a]"},
        {"[a]\ncount=8\nratio=1.01", "[a] ratio: '1.01' is out of range (0 to 1)"},
        {"[a]\nratio=nan", "[a] ratio: 'nan' is not a number"},
        {"[a]\nratio=0.5x", "is not a number"},
        {"[a]\nratio=", "is not a number"},
        {"[a]\ncount=101", "[a] count: '101' is out of range (-5 to 100)"},
        {"[a]\ncount=-6", "out of range"},
        {"[a]\ncount=99999999999999999999", "out of range"},
        {"[a]\ncount=1.0", "is not a whole number"},
        {"[a]\nenabled=2", "is not true or false"},
        {"[b]\nwait=7201", "[b] wait: '7201' is out of range (0s to 7200s)"},
        {"[b]\nwait=3 weeks", "is not a duration"},
        {"[b]\nlabel=123456789", "(0 to 8 bytes)"},
        {"[b]\ncolor=blue", "is not one of: red, green"},
        {"ratio=1", "group"},
        {"[a]\nratio\n", "ratio"},
        {"[b]\nlabel=\\q", "[b] label"},
        {"[a]\nratio=\xff", "not UTF-8"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autoptr(GError) err = NULL;
        struct sample sample = {0};
        vg_conf_defaults(keys, G_N_ELEMENTS(keys), &sample);
        if (parse(cases[i].text, &sample, &err) == 0)
            fail_msg("'%s' was accepted", cases[i].text);
        assert_true(g_error_matches(err, VG_ERROR, VG_E_INVALID));
        if (!strstr(err->message, cases[i].message))
            fail_msg("'%s' does not say '%s'", err->message, cases[i].message);
        assert_int_equal(sample.count, 7);
        vg_conf_clear(keys, G_N_ELEMENTS(keys), &sample);
    }
}

/* All of it is told, each with its line; of a known group that follows, too. */
static void
test_all_mistakes(void **state)
{
    (void)state;
    static const char text[] = "# comment\n"
                               "[a]\n"
                               "ratio=2\n"
                               "\n"
                               "  count = many\r\n"
                               "enabled=yes\n"
                               "[c]\n"
                               "x=1\n"
                               "[b]\n"
                               "colour=red\n"
                               "wait\n"
                               "label=a\\qb\n"
                               "color=red";
    static const char wanted[] =
        "f:3: [a] ratio: '2' is out of range (0 to 1)\n"
        "f:5: [a] count: 'many' is not a whole number\n"
        "f:7: unknown group [c]\n"
        "f:10: unknown key 'colour' in [b]\n"
        "f:11: 'wait' is not a key-value pair, a group or a comment\n"
        "f:12: [b] label: 'a\\qb' has an unknown escape sequence; valid are \\s, \\n, "
        "\\t, \\r and \\\\";
    struct vg_conf_place places[G_N_ELEMENTS(keys)] = {0};
    struct sample sample = {0};
    g_autoptr(GError) err = NULL;
    g_autoptr(GError) some = NULL;

    vg_conf_defaults(keys, G_N_ELEMENTS(keys), &sample);
    assert_int_equal(
        vg_conf_parse(keys, G_N_ELEMENTS(keys), "f", text, strlen(text), &sample, &err), -1);
    assert_string_equal(err->message, wanted);
    assert_false(sample.enabled);
    /* Who goes on looking gets what is right, and where it is from. */
    const struct vg_conf_schema schema = {.keys = keys, .n_keys = G_N_ELEMENTS(keys)};
    assert_int_equal(vg_conf_parse_some(&schema, "f", text, strlen(text), &sample, places, &some),
                     -1);
    assert_string_equal(some->message, wanted);
    assert_true(sample.enabled && sample.color == 0 && sample.count == 7);
    assert_true(places[0].bad && places[0].line == 3 && places[1].bad && places[1].line == 5);
    assert_true(!places[2].bad && places[2].line == 6 && !places[3].file && places[4].bad);
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++)
        g_free(places[i].file);
    vg_conf_clear(keys, G_N_ELEMENTS(keys), &sample);
}

static void
test_many_mistakes(void **state)
{
    (void)state;
    g_autoptr(GString) text = g_string_new("[a]\n");
    g_autoptr(GError) err = NULL;
    struct sample sample = {0};
    guint lines = 1;

    for (int i = 0; i < VG_CONF_ERRORS_MAX + 2; i++)
        g_string_append(text, "x=1\n");
    vg_conf_defaults(keys, G_N_ELEMENTS(keys), &sample);
    assert_int_equal(parse(text->str, &sample, &err), -1);
    for (const char *c = err->message; *c; c++)
        lines += *c == '\n';
    assert_int_equal(lines, VG_CONF_ERRORS_MAX + 1);
    assert_true(g_str_has_prefix(err->message, "line 2: unknown key 'x' in [a]\n"));
    assert_true(g_str_has_suffix(err->message, "\n... and 2 more"));
    vg_conf_clear(keys, G_N_ELEMENTS(keys), &sample);
}

static void
test_size_limit(void **state)
{
    (void)state;
    struct sample sample = {0};
    g_autoptr(GError) err = NULL;
    g_autofree char *text = g_malloc(VG_CONF_TEXT_MAX + 1);
    memset(text, '\n', VG_CONF_TEXT_MAX + 1);
    vg_conf_defaults(keys, G_N_ELEMENTS(keys), &sample);
    assert_int_equal(
        vg_conf_parse(keys, G_N_ELEMENTS(keys), NULL, text, VG_CONF_TEXT_MAX, &sample, NULL), 0);
    assert_int_equal(
        vg_conf_parse(keys, G_N_ELEMENTS(keys), NULL, text, VG_CONF_TEXT_MAX + 1, &sample, &err),
        -1);
    assert_non_null(strstr(err->message, "1048577"));
    /* A NUL is not text. */
    assert_int_equal(vg_conf_parse(keys, G_N_ELEMENTS(keys), NULL, "[a]\0x", 5, &sample, NULL), -1);
    vg_conf_clear(keys, G_N_ELEMENTS(keys), &sample);
}

static void
test_dump(void **state)
{
    (void)state;
    struct sample sample = {0};
    struct sample again = {0};
    vg_conf_defaults(keys, G_N_ELEMENTS(keys), &sample);
    vg_conf_defaults(keys, G_N_ELEMENTS(keys), &again);
    assert_int_equal(
        parse("[a]\nratio=0.1\ncount=3\n[b]\nwait=1500ms\nlabel= a\\n\n", &sample, NULL), 0);
    g_autofree char *dump = vg_conf_dump(keys, G_N_ELEMENTS(keys), &sample);
    assert_non_null(strstr(dump, "ratio=0.1\n"));
    assert_non_null(strstr(dump, "wait=1500ms\n"));
    assert_non_null(strstr(dump, "# Ratio. Range 0 to 1, default 0.25.\n"));
    assert_non_null(strstr(dump, "# Color. One of: red, green; default green.\n"));
    assert_int_equal(parse(dump, &again, NULL), 0);
    assert_true(again.ratio == sample.ratio && again.wait_ns == sample.wait_ns);
    assert_string_equal(again.label, sample.label);
    vg_conf_clear(keys, G_N_ELEMENTS(keys), &sample);
    vg_conf_clear(keys, G_N_ELEMENTS(keys), &again);
}

struct element {
    struct vg_conf_item item;
    char *url;
    int64_t slots;
};

struct listing {
    GPtrArray *elements;
};

static const struct vg_conf_key element_keys[] = {
    {"peer", "url_to", VG_CONF_STRING, offsetof(struct element, url), "", 0, 20, NULL, "Where."},
    {"peer", "slots", VG_CONF_INT, offsetof(struct element, slots), "1", 1, 9, NULL, "How many."},
};

static const struct vg_conf_list element_list = {"peer",
                                                 element_keys,
                                                 G_N_ELEMENTS(element_keys),
                                                 sizeof(struct element),
                                                 offsetof(struct listing, elements),
                                                 3};

static int
parse_list(const char *file, const char *text, struct listing *listing, GError **err)
{
    const struct vg_conf_schema schema = {.lists = &element_list, .n_lists = 1};

    return vg_conf_parse_some(&schema, file, text, strlen(text), listing, NULL, err);
}

static void
test_lists(void **state)
{
    (void)state;
    struct listing listing, again;
    g_autoptr(GError) err = NULL;

    vg_conf_lists_init(&element_list, 1, &listing);
    vg_conf_lists_init(&element_list, 1, &again);
    assert_int_equal(parse_list("f", "[peer b]\nurl-to=x\n\n[peer  a ]\nslots=3\n", &listing, &err),
                     0);
    /* A later file sets more of the same element. */
    assert_int_equal(parse_list("g", "[peer b]\nslots=2\nurl_to=y\n", &listing, &err), 0);
    assert_int_equal(listing.elements->len, 2);
    const struct element *b = listing.elements->pdata[0], *a = listing.elements->pdata[1];
    assert_string_equal(b->item.name, "b");
    assert_string_equal(b->item.file, "f");
    assert_int_equal(b->item.line, 1);
    assert_string_equal(b->url, "y");
    assert_int_equal(b->slots, 2);
    assert_string_equal(a->item.name, "a");
    assert_int_equal(a->item.line, 4);
    assert_int_equal(a->slots, 3);
    g_autofree char *dump = vg_conf_lists_dump(&element_list, 1, &listing);
    assert_int_equal(parse_list("h", dump, &again, NULL), 0);
    g_autofree char *same = vg_conf_lists_dump(&element_list, 1, &again);
    assert_string_equal(dump, same);
    assert_non_null(strstr(dump, "[peer a]\n"));
    assert_int_equal(parse_list("f",
                                "[peer]\nurl_to=1\n[peer x y]\n[peers]\n[peer c]\nslots=0\n"
                                "slots=4\nmore=1\n[peer d]\n",
                                &listing, &err),
                     -1);
    assert_string_equal(err->message,
                        "f:1: [peer] needs a name, like [peer a], of 1 to 64 letters, digits, '.', "
                        "'-' and '_'\n"
                        "f:3: [peer x y] needs a name, like [peer a], of 1 to 64 letters, digits, "
                        "'.', '-' and '_'\n"
                        "f:4: unknown group [peers]\n"
                        "f:6: [peer] slots: '0' is out of range (1 to 9)\n"
                        "f:8: unknown key 'more' in [peer c]\n"
                        "f:9: there are more than 3 groups [peer ...]");
    assert_int_equal(((const struct element *)listing.elements->pdata[2])->slots, 4);
    vg_conf_lists_clear(&element_list, 1, &listing);
    vg_conf_lists_clear(&element_list, 1, &again);
}

static void
test_policy_table(void **state)
{
    (void)state;
    struct vg_policy_config config;
    struct vg_policy_config again;
    g_autoptr(GError) err = NULL;
    vg_policy_config_init(&config);
    assert_true(config.score.half_life_ns == INT64_C(60000000000));
    assert_true(config.score.cpu_enter == 0.3 && config.score.cpu_leave == 0.2);
    assert_true(config.preempt_threshold == 10);
    assert_true(config.hold_ns == INT64_C(30000000000));
    assert_int_equal(config.max_moves, -1000); /* 10% */
    assert_int_equal(config.rule, VG_RULE_COMPLEMENT);

    g_autofree char *dump = vg_policy_config_dump(&config);
    assert_int_equal(vg_policy_config_parse(dump, strlen(dump), &again, NULL), 0);
    g_autofree char *dump_again = vg_policy_config_dump(&again);
    assert_string_equal(dump, dump_again);

    static const char crossed[] = "[score]\ncpu_leave=0.4\n";
    again.max_moves = 99;
    assert_int_equal(vg_policy_config_parse(crossed, strlen(crossed), &again, &err), -1);
    assert_non_null(strstr(err->message, "cpu_leave"));
    assert_int_equal(again.max_moves, 99);

    enum vg_rule_id rule;
    assert_int_equal(vg_rule_from_name("paper-threshold", &rule, NULL), 0);
    assert_int_equal(rule, VG_RULE_PAPER_THRESHOLD);
    g_clear_error(&err);
    assert_int_equal(vg_rule_from_name("magic", &rule, &err), -1);
    assert_true(g_error_matches(err, VG_ERROR, VG_E_NOT_FOUND));
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),      cmocka_unit_test(test_values),
        cmocka_unit_test(test_durations),     cmocka_unit_test(test_refused),
        cmocka_unit_test(test_size_limit),    cmocka_unit_test(test_all_mistakes),
        cmocka_unit_test(test_many_mistakes), cmocka_unit_test(test_dump),
        cmocka_unit_test(test_lists),         cmocka_unit_test(test_policy_table),
    };
    return cmocka_run_group_tests_name("conf", tests, NULL, NULL);
}
