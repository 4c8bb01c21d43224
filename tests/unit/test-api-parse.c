/* SPDX-License-Identifier: Apache-2.0
 *
 * What requests are made of: percent encoding, queries, times, durations, ETags, ids, markers.
 * Times are those of date(1).
 */
#include "config.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>

#include "api/parse.h"
#include "base/error.h"

#define S   INT64_C(1000000000)
#define NOW (1795200000 * S)

static void
test_percent(void **state)
{
    (void)state;
    static const char *const good[][2] = {
        {"", ""},
        {"abc", "abc"},
        {"a%20b", "a b"},
        {"%2F%2f", "//"},
        {"%C3%A4", "\xc3\xa4"},
        {"a+b", "a+b"},
        {"\xc3\xa4", "\xc3\xa4"},
        {"%25zz", "%zz"},
        {"a%0ab%1f%7F", "a\nb\x1f\x7f"},
    };
    static const char *const bad[] = {"%",  "%2",   "a%",   "%zz",  "%0",       "%00",
                                      "\n", "\x1f", "\x7f", "\x01", "%ff",      "%C3",
                                      "%2", "%g0",  "%+1f", "\xff", "%ED%A0%80"};
    for (size_t i = 0; i < G_N_ELEMENTS(good); i++) {
        g_autofree char *text = vg_parse_percent(good[i][0], strlen(good[i][0]), NULL);
        assert_string_equal(text, good[i][1]);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) err = NULL;
        if (vg_parse_percent(bad[i], strlen(bad[i]), &err))
            fail_msg("'%s' was accepted", bad[i]);
        assert_true(g_error_matches(err, VG_ERROR, VG_E_INVALID));
    }
    /* Nothing past the size is read. */
    g_autoptr(GError) err = NULL;
    assert_null(vg_parse_percent("%41", 2, &err));
}

static void
test_query(void **state)
{
    (void)state;
    static const char *const names[] = {"limit", "vm", NULL};
    static const char *const none[] = {NULL};
    static const char *const bad[] = {
        "x=1",       "limit", "limit=1&limit=2", "limit=1&",      "&",          "&limit=1", "=1",
        "limit=%zz", "%00=1", "LIMIT=1",         "limit=1&&vm=a", "limit%00=1", "limit;vm"};
    struct vg_query query = {0};

    assert_int_equal(vg_parse_query("vm=a%26b%3D&limit=", names, &query, NULL), 0);
    assert_string_equal(vg_query_get(&query, "vm"), "a&b=");
    assert_string_equal(vg_query_get(&query, "limit"), "");
    assert_null(vg_query_get(&query, "x"));
    vg_query_clear(&query);
    assert_int_equal(vg_parse_query("%76m==", names, &query, NULL), 0);
    assert_string_equal(vg_query_get(&query, "vm"), "=");
    vg_query_clear(&query);
    assert_int_equal(vg_parse_query(NULL, none, &query, NULL), 0);
    assert_int_equal(vg_parse_query("", none, &query, NULL), 0);
    assert_int_equal(query.n, 0);
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) err = NULL;
        if (vg_parse_query(bad[i], names, &query, &err) == 0)
            fail_msg("'%s' was accepted", bad[i]);
        assert_int_equal(query.n, 0);
    }
    g_autoptr(GError) err = NULL;
    assert_int_equal(vg_parse_query("a=1", none, &query, &err), -1);
    assert_string_equal(err->message, "a: this path accepts no query parameters");
}

static void
test_int(void **state)
{
    (void)state;
    static const char *const names[] = {"n", NULL};
    static const struct {
        const char *text;
        int64_t value; /* -1: refused */
    } cases[] = {
        {"n=0", 0},    {"n=10", 10},
        {"n=007", 7},  {"n=11", -1},
        {"n=-1", -1},  {"n=", -1},
        {"n=1.0", -1}, {"n= 1", -1},
        {"n=+1", -1},  {"n=0x1", -1},
        {"n=%31", 1},  {"n=1%20", -1},
        {"n=1e0", -1}, {"n=99999999999999999999999", -1},
        {"n=-0", -1},  {"n=4611686018427387905", -1},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        struct vg_query query = {0};
        int64_t value = 99;
        g_autoptr(GError) err = NULL;
        assert_int_equal(vg_parse_query(cases[i].text, names, &query, NULL), 0);
        int rc = vg_query_int(&query, "n", 0, 10, &value, &err);
        vg_query_clear(&query);
        if ((rc == 0) != (cases[i].value >= 0) || value != (rc == 0 ? cases[i].value : 99))
            fail_msg("'%s': %d, %lld", cases[i].text, rc, (long long)value);
    }
    struct vg_query query = {0};
    int64_t value = 7;
    assert_int_equal(vg_query_int(&query, "n", 0, 10, &value, NULL), 0);
    assert_int_equal(value, 7);
    assert_int_equal(vg_parse_query("n=4611686018427387904", names, &query, NULL), 0);
    assert_int_equal(vg_query_int(&query, "n", 0, INT64_C(1) << 62, &value, NULL), 0);
    assert_int_equal(value, INT64_C(1) << 62);
    vg_query_clear(&query);
    assert_int_equal(vg_parse_query("n=1000000000000000000", names, &query, NULL), 0);
    assert_int_equal(vg_query_int(&query, "n", 0, INT64_C(1) << 62, &value, NULL), 0);
    assert_int_equal(value, INT64_C(1000000000000000000));
    vg_query_clear(&query);
}

static void
test_targets(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"/v1", "/v1"},
        {"http://a/v1?b", "/v1?b"},
        {"HTTP://a:1", "/"},
        {"http://?x", "/?x"},
        {"http:/v1", "http:/v1"},
        {"https://a/v1", "https://a/v1"},
        {"*", "*"},
        {"http://a/%76%31?%76", "/v1?%76"},
        {"/%61%2D%5f", "/a-_"},
        {"/%2f%25%20%00%80", "/%2f%25%20%00%80"},
        {"/%", "/%"},
        {"/%4", "/%4"},
        {"/a?b=%61", "/a?b=%61"},
        {"/%7E%7e?", "/~~?"},
        {"", ""},
        {"/%2561", "/%2561"},
        {"/%%61", "/%a"},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *uri = vg_parse_target(cases[i][0], 100);
        assert_string_equal(uri, cases[i][1]);
    }
    g_autofree char *cut = vg_parse_target("http://x/abc", 2);
    assert_string_equal(cut, "/a");
}

static void
test_lengths(void **state)
{
    (void)state;
    static const char *const names[] = {"vm", NULL};
    struct vg_query query = {0};
    g_autoptr(GError) err = NULL;

    assert_int_equal(vg_query_length(&query, "vm", 2, NULL), 0);
    assert_int_equal(vg_parse_query("vm=%C3%A4%C3%A4", names, &query, NULL), 0);
    assert_int_equal(vg_query_length(&query, "vm", 2, NULL), 0);
    assert_int_equal(vg_query_length(&query, "vm", 1, &err), -1);
    assert_non_null(strstr(err->message, "vm: it must have 1 to 1 characters"));
    vg_query_clear(&query);
}

static void
test_times(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ns;
    } good[] = {
        {"now", NOW},
        {"-1h", NOW - 3600 * S},
        {"-30s", NOW - 30 * S},
        {"-5min", NOW - 300 * S},
        {"-5m", NOW - 300 * S},
        {"-7d", NOW - 604800 * S},
        {"0", 0},
        {"1795200000", NOW},
        {"1795200000.5", NOW + S / 2},
        {"1.000000001", S + 1},
        {"-5", -5 * S},
        {"-1.25", -S - S / 4},
        {"2026-11-20T18:40:00Z", NOW},
        {"2026-11-20t18:40:00z", NOW},
        {"2026-11-20 18:40:00Z", NOW},
        {"2026-11-20T18:40:00.000000001Z", NOW + 1},
        {"2026-11-20T18:40:00.5+00:00", NOW + S / 2},
        {"2026-11-20T20:10:00+01:30", NOW},
        {"2026-11-20T10:40:00-08:00", NOW},
        {"1970-01-01T00:00:00Z", 0},
        {"1969-12-31T23:59:59Z", -S},
        {"2024-02-29T00:00:00Z", 1709164800 * S},
        {"2000-03-01T00:00:00Z", 951868800 * S},
        {"1900-03-01T00:00:00Z", -2203891200 * S},
        {"2016-12-31T23:59:60Z", 1483228800 * S},
    };
    static const char *const bad[] = {
        "",
        "-",
        "x",
        "1h",
        "--1h",
        "- 1h",
        "1795200000.",
        "1.0000000001",
        "12345678901",
        "9999999999",
        "1e3",
        "+1",
        "2026-11-20",
        "2026-11-20T18:40Z",
        "2026-11-20T18:40:00",
        "2026-13-20T18:40:00Z",
        "2026-00-20T18:40:00Z",
        "2026-11-00T18:40:00Z",
        "2026-11-31T18:40:00Z",
        "2025-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2026-11-20T24:00:00Z",
        "2026-11-20T18:60:00Z",
        "2026-11-20T18:40:61Z",
        "2026-11-20T18:40:00.Z",
        "2026-11-20T18:40:00.0000000001Z",
        "2026-11-20T18:40:00+1",
        "2026-11-20T18:40:00+0100",
        "2026-11-20T18:40:00+24:00",
        "2026-11-20T18:40:00Zx",
        "2026-11-20T18:40:00Z ",
        " now",
        "9999-12-31T23:59:59Z",
        "0000-01-01T00:00:00Z",
        "-999999999d",
        "2026-1-20T18:40:00Z",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(good); i++) {
        int64_t ns = 1;
        g_autoptr(GError) err = NULL;
        if (vg_parse_time(good[i].text, NOW, &ns, &err) < 0)
            fail_msg("'%s': %s", good[i].text, err->message);
        if (ns != good[i].ns)
            fail_msg("'%s': %lld", good[i].text, (long long)ns);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        int64_t ns = 1;
        g_autoptr(GError) err = NULL;
        if (vg_parse_time(bad[i], NOW, &ns, &err) == 0)
            fail_msg("'%s' was accepted", bad[i]);
    }
}

static void
test_durations(void **state)
{
    (void)state;
    static const char *const bad[] = {"",    "s",   "1",    "-1s",         "1 s",       "1S",
                                      "1ms", "1sx", "1.5h", "1234567890s", "999999999d"};
    int64_t ns = 0;

    assert_int_equal(vg_parse_duration("90s", &ns, NULL), 0);
    assert_int_equal(ns, 90 * S);
    assert_int_equal(vg_parse_duration("2d", &ns, NULL), 0);
    assert_int_equal(ns, 172800 * S);
    assert_int_equal(vg_parse_duration("999999999s", &ns, NULL), 0);
    assert_int_equal(ns, 999999999 * S);
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) err = NULL;
        if (vg_parse_duration(bad[i], &ns, &err) == 0)
            fail_msg("'%s' was accepted", bad[i]);
    }
}

static void
test_raw_times(void **state)
{
    static const struct {
        const char *text;
        int64_t ns;
    } good[] = {
        {"0", 0},         {"71000000000", 71 * S}, {"4611686018427387904", INT64_C(1) << 62},
        {"-0s", 100 * S}, {"-10s", 90 * S},        {"-1h", -3500 * S},
    };
    static const char *const bad[] = {
        "",
        "now",
        "-",
        "-1",
        "+1",
        "1.5",
        "0x1",
        " 1",
        "1 ",
        "10s",
        "1e9",
        "-1.5s",
        "-1x",
        "--1s",
        "4611686018427387905",
        "99999999999999999999",
        "-53376d",
        "2026-11-20T10:00:00Z",
    };
    int64_t ns = 0;

    (void)state;
    for (size_t i = 0; i < G_N_ELEMENTS(good); i++) {
        if (vg_parse_raw_time(good[i].text, 100 * S, &ns, NULL) < 0 || ns != good[i].ns)
            fail_msg("'%s': %" PRId64, good[i].text, ns);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) err = NULL;
        if (vg_parse_raw_time(bad[i], 100 * S, &ns, &err) == 0)
            fail_msg("'%s' was accepted", bad[i]);
        assert_true(g_error_matches(err, VG_ERROR, VG_E_INVALID));
    }
}

static void
test_etags(void **state)
{
    (void)state;
    static const char *const yes[] = {"\"a\"",          "W/\"a\"",  "*",     "\"b\", \"a\"",
                                      "\"b\",W/\"a\" ", " \"a\"\t", ",\"a\""};
    static const char *const no[] = {"",       "a",      "\"b\"",   "\"a",
                                     "\"ab\"", "x\"a\"", "w/\"a\"", "\"*\""};

    for (size_t i = 0; i < G_N_ELEMENTS(yes); i++) {
        if (!vg_parse_etag_match(yes[i], "\"a\""))
            fail_msg("'%s'", yes[i]);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(no); i++) {
        if (vg_parse_etag_match(no[i], "\"a\""))
            fail_msg("'%s'", no[i]);
    }
}

#define BOOT "0b7e2d1c-55aa-4c3e-9d54-2f1f6a3c9e01"

static void
test_ids(void **state)
{
    (void)state;
    uint64_t seq = 0;

    assert_int_equal(vg_parse_event_id(BOOT "-42", BOOT, &seq), VG_EVENT_ID_OK);
    assert_int_equal(seq, 42);
    assert_int_equal(vg_parse_event_id("1" BOOT "-42", BOOT, &seq), VG_EVENT_ID_INVALID);
    assert_int_equal(vg_parse_event_id("00000000-55aa-4c3e-9d54-2f1f6a3c9e01-42", BOOT, &seq),
                     VG_EVENT_ID_RESTART);
    assert_int_equal(vg_parse_event_id(BOOT, BOOT, &seq), VG_EVENT_ID_INVALID);
    assert_int_equal(vg_parse_event_id("", BOOT, &seq), VG_EVENT_ID_INVALID);
    assert_int_equal(vg_parse_event_id("-", BOOT, &seq), VG_EVENT_ID_INVALID);
    assert_int_equal(vg_parse_event_id(BOOT "-9999999999999999999", BOOT, &seq),
                     VG_EVENT_ID_INVALID);
    assert_int_equal(seq, 42);
    assert_true(vg_parse_is_request_id("req-" BOOT));
    assert_false(vg_parse_is_request_id(BOOT));
    assert_false(vg_parse_is_request_id("req-" BOOT "0"));
    assert_true(vg_parse_in_list("window,vm", "vm"));
    assert_false(vg_parse_in_list("window,vm", "v"));
    assert_false(vg_parse_in_list("", "vm"));
    assert_int_equal(vg_parse_types("vm,replay-end", NULL), 0);
    static const char *const bad[] = {
        "",           ",",
        "a,",         "A",
        "a b",        "-a",
        "a,,b",       "a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a",
        "vm,windows", "vm,vm,vm,vm,vm,vm,vm,vm,vm,vm,vm,vm,vm,vm,vm,vm,vm"};
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) err = NULL;
        if (vg_parse_types(bad[i], &err) == 0)
            fail_msg("'%s' was accepted", bad[i]);
    }
}

static void
test_markers(void **state)
{
    (void)state;
    static const char *const texts[] = {"a", "ab", "abc", "abcd", "0\nx\n\xc3\xa4\xc3\xbf?>?>"};
    static const char *const bad[] = {"",     "a",    "abcde", "YQ==", "a b",
                                      "+/+/", "YQ\n", "_w",    "AAAA"};

    for (size_t i = 0; i < G_N_ELEMENTS(texts); i++) {
        g_autofree char *marker = vg_marker_new(texts[i]);
        assert_int_equal(strspn(marker, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                        "0123456789-_"),
                         strlen(marker));
        g_autofree char *back = vg_marker_read(marker, NULL);
        assert_string_equal(back, texts[i]);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(bad); i++) {
        g_autoptr(GError) err = NULL;
        if (vg_marker_read(bad[i], &err))
            fail_msg("'%s' was accepted", bad[i]);
    }
}

static void
test_plan_request(void **state)
{
    (void)state;
    static const char good[] = "{\"dry_run\": true, \"rule\": \"complement\"}";
    struct vg_plan_request request = {0};
    g_autoptr(GError) err = NULL;

    assert_int_equal(vg_parse_plan_request(good, strlen(good), &request, NULL), 0);
    assert_true(request.dry_run);
    assert_string_equal(request.rule, "complement");
    g_free(request.rule);
    request.rule = NULL;
    assert_int_equal(vg_parse_plan_request("{\"dry_run\":true,\"x\":1}", 22, &request, &err), -1);
    assert_string_equal(err->message, "x: unknown member");
    assert_null(request.rule);
    static const char both[] = "{\"dry_run\":true,\"rule\":\"x\",\"free_up\":\"24Q\"}";
    g_clear_error(&err);
    assert_int_equal(vg_parse_plan_request(both, strlen(both), &request, &err), -1);
    assert_string_equal(err->message, "free_up: it cannot be combined with `rule`");
    static const char places[] = "{\"dry_run\":true,\"free_up\":\"24Q:2\"}";
    assert_int_equal(vg_parse_plan_request(places, strlen(places), &request, NULL), 0);
    assert_null(request.rule);
    assert_string_equal(request.free_up, "24Q:2");
    g_free(request.free_up);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_percent),   cmocka_unit_test(test_query),
        cmocka_unit_test(test_int),       cmocka_unit_test(test_times),
        cmocka_unit_test(test_durations), cmocka_unit_test(test_raw_times),
        cmocka_unit_test(test_etags),     cmocka_unit_test(test_ids),
        cmocka_unit_test(test_markers),   cmocka_unit_test(test_targets),
        cmocka_unit_test(test_lengths),   cmocka_unit_test(test_plan_request),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
