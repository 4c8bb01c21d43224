/* SPDX-License-Identifier: Apache-2.0
 *
 * What is told of the measuring: who was not known from when to when, windows that are stored ahead
 * of the clock, and those that are gone.
 */
#include "config.h"

#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>
#include <glib.h>

#include "base/clock.h"
#include "base/json.h"
#include "daemon/measuring.h"
#include "store-cases.h"

#define AT(s) ((INT64_C(1795200000) + (s)) * VG_NS_PER_S)

static void
take(vg_measuring *measuring, int64_t begin_s, const char *who, const char *reason)
{
    /* On the clock of windows, which is not that of the host. */
    struct vg_gathered gathered = {
        .window = {.begin_ns = 7 * VG_NS_PER_S, .end_ns = 8 * VG_NS_PER_S},
        .clock_offset_ns = AT(begin_s - 7)};

    gathered.provenance.measures[VG_MEASURE_LOST_TO] =
        (struct vg_measured){.source = who, .reason = reason};
    vg_measuring_take(measuring, &gathered);
}

/* The next event is this one, but for its number, time and type. */
static void
expect(vg_event_log *log, uint64_t after, const char *expected)
{
    struct vg_logged_event event = {0};
    uint64_t lost = 0;

    assert_true(vg_event_log_next(log, after, &event, &lost));
    assert_string_equal(event.type, "measuring");
    g_autoptr(json_object) data = json_tokener_parse(event.data);
    json_object_object_del(data, "seq");
    json_object_object_del(data, "time");
    json_object_object_del(data, "type");
    g_autoptr(json_object) wanted = json_tokener_parse(expected);
    assert_non_null(wanted);
    if (!json_object_equal(data, wanted))
        fail_msg("told %s, not %s", event.data, expected);
    g_free(event.data);
}

static void
test_who_is_not_known_from_when_to_when(void **state)
{
    (void)state;
    g_autoptr(vg_event_log) log = vg_event_log_new();
    vg_measuring *measuring = vg_measuring_new(log, NULL, false);

    take(measuring, 0, "bpf", NULL);
    assert_int_equal(vg_event_log_newest(log), 0);
    take(measuring, 1, NULL, "the budget");
    take(measuring, 2, NULL, "the budget");
    assert_int_equal(vg_event_log_newest(log), 1);
    expect(log, 0,
           "{\"what\":\"who-unknown\",\"since_ns\":1795200001000000000,\"reason\":\"the budget\"}");
    take(measuring, 3, "bpf", NULL);
    take(measuring, 4, "bpf", NULL);
    assert_int_equal(vg_event_log_newest(log), 2);
    expect(log, 1,
           "{\"what\":\"who-known\",\"since_ns\":1795200001000000000,"
           "\"until_ns\":1795200003000000000}");
    vg_measuring_free(measuring);
}

static void
test_what_is_stored_ahead_of_the_clock(void **state)
{
    (void)state;
    g_autoptr(vg_event_log) log = vg_event_log_new();
    vg_measuring *measuring = vg_measuring_new(log, NULL, false);

    take(measuring, 3600, "bpf", NULL);
    take(measuring, 3601, "bpf", NULL);
    take(measuring, 0, "bpf", NULL);
    take(measuring, 1, "bpf", NULL);
    assert_int_equal(vg_event_log_newest(log), 1);
    expect(log, 0,
           "{\"what\":\"stored-ahead\",\"since_ns\":1795200001000000000,"
           "\"until_ns\":1795203602000000000}");
    vg_measuring_free(measuring);
}

/* As if nothing had been written there for ten days. */
static void
age_files(const char *directory)
{
    const time_t then_s = (time_t)((vg_clock_realtime_ns() - 10 * DAY_NS) / S_NS);
    const struct timespec times[] = {{.tv_sec = then_s}, {.tv_sec = then_s}};
    GDir *dir = g_dir_open(directory, 0, NULL);

    for (const char *name = g_dir_read_name(dir); name; name = g_dir_read_name(dir)) {
        g_autofree char *path = g_build_filename(directory, name, NULL);
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    }
    g_dir_close(dir);
}

static void
test_what_is_gone(void **state)
{
    (void)state;
    const int64_t today = vg_clock_realtime_ns() / DAY_NS * DAY_NS;
    const int64_t old = today - 10 * DAY_NS;
    g_autoptr(vg_event_log) log = vg_event_log_new();
    char *directory = store_case_directory();
    struct vg_store_options options = store_case_options(directory);
    struct vg_store_health health;
    struct vg_logged_event event = {0};
    uint64_t lost = 0, seq = 0;

    vg_store *store = vg_store_new(&options, NULL);
    store_case_put(store, "live", old, old + S_NS, 1);
    vg_store_free(store);
    age_files(directory);
    store = vg_store_new(&options, NULL);
    store_case_put(store, "live", today, today + S_NS, 1);
    vg_store_free(store);
    /* What is old goes when the store begins, and then each hour. */
    options.raw_days = 3;
    store = vg_store_new(&options, NULL);
    vg_measuring *measuring = vg_measuring_new(log, store, false);
    store_case_put(store, "live", today + S_NS, today + 2 * S_NS, 1);
    const int64_t limit_ns = vg_clock_monotonic_ns() + 60 * S_NS;
    do {
        g_usleep(1000);
        vg_store_read_health(store, &health);
    } while ((health.expired_ns[VG_STORED_WINDOWS] == 0 || health.state != VG_STORE_OK) &&
             vg_clock_monotonic_ns() < limit_ns);
    for (int i = 0; i < 3; i++)
        vg_measuring_watch(measuring);
    g_autofree char *wanted = g_strdup_printf(
        "{\"what\":\"expired\",\"stored\":\"windows\",\"until_ns\":%" PRId64 "}", old + DAY_NS);
    for (int told = 0; vg_event_log_next(log, seq, &event, &lost); seq = event.seq) {
        if (strcmp(event.type, "measuring") == 0) {
            assert_int_equal(told++, 0);
            expect(log, seq, wanted);
        }
        g_free(event.data);
    }
    assert_int_equal(seq, 2); /* and that the store is in order */
    vg_measuring_free(measuring);
    vg_store_free(store);
    store_case_remove(directory);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_is_not_known_from_when_to_when),
        cmocka_unit_test(test_what_is_stored_ahead_of_the_clock),
        cmocka_unit_test(test_what_is_gone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
