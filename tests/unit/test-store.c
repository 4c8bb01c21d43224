/* SPDX-License-Identifier: Apache-2.0
 *
 * What is put comes back, replaces what it should, and its sums are those of the windows.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <glib.h>
#include <glib/gstdio.h>

#include "base/error.h"
#include "store-checks.h"

#define T0 MIDNIGHT_NS

/* ---- windows ---- */

static void
test_round_trip(void **state)
{
    vg_store *store = store_open(*state);
    struct vg_store_health health;

    store_put_seconds(store, "procfs", T0, 5, 4);
    for (guint vm = 0; vm < 4; vm++) {
        g_autoptr(GArray) rows = store_read_rows(store, vm, T0, T0 + 5 * S_NS, 0);
        assert_int_equal(rows->len, 5);
        for (guint i = 0; i < 5; i++)
            store_assert_sums(store_row_at(rows, i), vm, T0 + i * S_NS, T0 + (i + 1) * S_NS);
    }
    vg_store_read_health(store, &health);
    assert_int_equal(health.state, VG_STORE_OK);
    assert_int_equal(health.committed, 5);
    assert_int_equal(health.pending, 0);
    assert_int_equal(health.newest_ns, T0 + 5 * S_NS);
    assert_int_equal(vg_store_backlog(store), 0);
    assert_true(store_has_file(*state, "ts-20261120.db"));
    vg_store_free(store);
    /* The bounds of a query: after since, not after until. */
    store = store_open(*state);
    g_autoptr(GArray) rows = store_read_rows(store, 1, T0 + S_NS, T0 + 3 * S_NS, 0);
    assert_int_equal(rows->len, 2);
    store_assert_sums(store_row_at(rows, 0), 1, T0 + S_NS, T0 + 2 * S_NS);
    vg_store_free(store);
}

static void
test_clock_offset(void **state)
{
    vg_store *store = store_open(*state);
    struct vg_window window;

    store_case_window(&window, 10 * S_NS, 11 * S_NS, 2);
    store_case_put_window(store, "trace", &window, T0);
    /* Nothing to store: no length, and times that no clock shows. */
    store_case_put_window(store, "trace", &window, INT64_MAX - S_NS);
    window.begin_ns = window.end_ns;
    store_case_put_window(store, "trace", &window, T0);
    vg_window_clear(&window);
    assert_true(vg_store_flush(store, STORE_LONG_NS));
    g_autoptr(GArray) rows = store_read_rows(store, 0, INT64_MIN, INT64_MAX, 0);
    assert_int_equal(rows->len, 1);
    assert_int_equal(store_row_at(rows, 0)->end_ns, T0 + 11 * S_NS);
    vg_store_free(store);
}

static void
test_replace(void **state)
{
    vg_store *store = store_open(*state);
    struct vg_window window;

    store_put_seconds(store, "a", T0, 30, 2);
    store_put_seconds(store, "b", T0, 30, 2);
    /* The same window again, with other figures. */
    store_case_window(&window, T0 + 3 * S_NS, T0 + 4 * S_NS, 2);
    g_array_index(window.vms, struct vg_vm_sample, 0).cpu.clipped = 77;
    store_case_put_window(store, "a", &window, 0);
    vg_window_clear(&window);
    assert_true(vg_store_flush(store, STORE_LONG_NS));
    char key[VG_VM_NAME_MAX];
    struct vg_history_query query = {
        .vm = store_case_key(0, key), .source = "a", .since_ns = T0, .until_ns = T0 + MIN_NS};
    GArray *rows = vg_store_read_samples(store, &query, NULL);
    assert_int_equal(rows->len, 30);
    assert_int_equal(store_row_at(rows, 3)->cpu.clipped, 77);
    g_array_unref(rows);
    /* Longer windows, which lie across those that are there. */
    for (int i = 0; i < 3; i++)
        store_case_put(store, "a", T0 + (i * 7 + 2) * S_NS + 5, T0 + (i * 7 + 9) * S_NS + 5, 2);
    assert_true(vg_store_flush(store, STORE_LONG_NS));
    rows = vg_store_read_samples(store, &query, NULL);
    /* 2 before, 3 long ones over 2..23, 6 after the one that ends at 24. */
    assert_int_equal(rows->len, 2 + 3 + 6);
    assert_int_equal(store_row_at(rows, 2)->begin_ns, T0 + 2 * S_NS + 5);
    assert_int_equal(store_row_at(rows, 5)->begin_ns, T0 + 24 * S_NS);
    g_array_unref(rows);
    query.source = "b";
    rows = vg_store_read_samples(store, &query, NULL);
    assert_int_equal(rows->len, 30);
    g_array_unref(rows);
    vg_store_free(store);
}

static char *
find_vm(vg_store *store, const char *name)
{
    GError *err = NULL;
    char *key = vg_store_find_vm(store, name, &err);

    if (!key)
        assert_true(g_error_matches(err, VG_ERROR, VG_E_NOT_FOUND));
    g_clear_error(&err);
    return key;
}

/* By its name, in memory and on disk: the newest that had it. */
static void
test_find_vm(void **state)
{
    static const char again[] = "00000000-0000-4000-8000-00000000aaaa";
    vg_store *store = store_open(*state);
    struct vg_window window;
    char key[VG_VM_NAME_MAX];

    assert_null(find_vm(store, "vm-0"));
    store_put_seconds(store, "a", T0, 2, 2);
    for (int run = 0; run < 2; run++) {
        g_autofree char *even = find_vm(store, "vm-0");
        g_autofree char *odd = find_vm(store, "vm-1");
        assert_string_equal(even, store_case_key(0, key));
        assert_string_equal(odd, "vm-1");
        assert_null(find_vm(store, "vm-2"));
        vg_store_free(store);
        store = store_open(*state);
    }
    store_case_window(&window, T0 + DAY_NS, T0 + DAY_NS + S_NS, 1);
    g_strlcpy(g_array_index(window.vms, struct vg_vm_sample, 0).uuid, again, VG_UUID_LEN);
    store_case_put_window(store, "a", &window, 0);
    vg_window_clear(&window);
    assert_true(vg_store_flush(store, STORE_LONG_NS));
    for (int run = 0; run < 2; run++) {
        g_autofree char *newest = find_vm(store, "vm-0");
        assert_string_equal(newest, again);
        vg_store_free(store);
        store = store_open(*state);
    }
    vg_store_free(store);
}

/* What takes too long is given up, and says what to do. */
static void
test_deadline(void **state)
{
    vg_store *store = store_open(*state);
    char key[VG_VM_NAME_MAX];
    GError *err = NULL;
    struct vg_history_query query = {
        .vm = store_case_key(0, key), .since_ns = T0, .until_ns = T0 + DAY_NS, .deadline_ns = 1};

    store_put_seconds(store, "a", T0, 300, 1);
    assert_null(vg_store_read_samples(store, &query, &err));
    assert_true(g_error_matches(err, VG_ERROR, VG_E_TIMEOUT));
    assert_non_null(strstr(err->message, "takes too long"));
    g_clear_error(&err);
    query.deadline_ns = vg_clock_monotonic_ns() + STORE_LONG_NS;
    g_autoptr(GArray) rows = vg_store_read_samples(store, &query, NULL);
    assert_int_equal(rows->len, 300);
    vg_store_free(store);
}

static void
test_days(void **state)
{
    vg_store *store = store_open(*state);
    int64_t midnight = T0 + DAY_NS;

    store_put_seconds(store, "a", midnight - 5 * S_NS, 10, 2);
    assert_int_equal(store_ask(*state, "ts-20261120.db", "SELECT count(*) FROM win"), 4);
    assert_int_equal(store_ask(*state, "ts-20261121.db", "SELECT count(*) FROM win"), 6);
    store_assert_steps(store, 1, midnight - 5 * S_NS, midnight + 5 * S_NS, S_NS);
    store_assert_steps(store, 1, midnight - 5 * S_NS, midnight + 5 * S_NS, MIN_NS);
    /* One window over midnight, and back to short ones: nothing of the others stays. */
    store_case_put(store, "a", midnight - 4 * S_NS, midnight + 3 * S_NS, 2);
    assert_true(vg_store_flush(store, STORE_LONG_NS));
    g_autoptr(GArray) rows = store_read_rows(store, 0, T0, midnight + DAY_NS, 0);
    assert_int_equal(rows->len, 1 + 1 + 2);
    store_case_put(store, "a", midnight - 3 * S_NS, midnight - 2 * S_NS, 2);
    assert_true(vg_store_flush(store, STORE_LONG_NS));
    g_autoptr(GArray) again = store_read_rows(store, 0, T0, midnight + DAY_NS, 0);
    assert_int_equal(again->len, 1 + 1 + 2);
    assert_int_equal(store_row_at(again, 1)->end_ns, midnight - 2 * S_NS);
    vg_store_free(store);
}

/* Two processes with one UUID in a window (a VM that was started again) are one VM. */
static void
test_two_processes_of_one_vm(void **state)
{
    vg_store *store = store_open(*state);
    struct vg_window window;

    store_case_window(&window, T0, T0 + S_NS, 3);
    struct vg_vm_sample *third = &g_array_index(window.vms, struct vg_vm_sample, 2);
    struct vg_cpu_figures sum = third->cpu;
    const struct vg_vm_sample *first = &g_array_index(window.vms, struct vg_vm_sample, 0);
    vg_cpu_figures_add(&sum, &first->cpu);
    g_strlcpy(third->uuid, first->uuid, sizeof(third->uuid));
    store_case_put_window(store, "a", &window, 0);
    vg_window_clear(&window);
    assert_true(vg_store_flush(store, STORE_LONG_NS));
    g_autoptr(GArray) rows = store_read_rows(store, 0, T0, T0 + S_NS, 0);
    assert_int_equal(rows->len, 1);
    assert_int_equal(store_row_at(rows, 0)->windows, 1);
    assert_memory_equal(&store_row_at(rows, 0)->cpu, &sum, sizeof(sum));
    g_autoptr(GArray) other = store_read_rows(store, 1, T0, T0 + S_NS, 0);
    assert_int_equal(other->len, 1);
    vg_store_free(store);
}

/* Twelve aggressors, of which three are kept by name. */
static void
test_lost_top(void **state)
{
    struct vg_store_options options = store_case_options(*state);
    struct vg_window window;
    uint64_t count;

    options.lost_top = 3;
    vg_store *store = vg_store_new(&options, NULL);
    store_case_window(&window, T0, T0 + S_NS, 12);
    GArray *losses = g_array_index(window.vms, struct vg_vm_sample, 0).lost_to;
    g_array_set_size(losses, 0);
    for (uint32_t i = 0; i < 12; i++) {
        struct vg_lost_to lost = {
            .kind = VG_AGGRESSOR_VM, .vm_id = 1000 + i, .ns = 100 + i, .count = i};
        g_array_append_val(losses, lost);
    }
    store_case_put_window(store, "a", &window, 0);
    assert_true(vg_store_flush(store, STORE_LONG_NS));
    options.lost_top = 0;
    vg_store_set_limits(store, &options);
    window.begin_ns += S_NS;
    window.end_ns += S_NS;
    store_case_put_window(store, "a", &window, 0);
    g_array_set_size(losses, 0);
    window.begin_ns += S_NS;
    window.end_ns += S_NS;
    store_case_put_window(store, "a", &window, 0);
    vg_window_clear(&window);
    assert_true(vg_store_flush(store, STORE_LONG_NS));
    g_autoptr(GArray) rows = store_read_rows(store, 0, T0, T0 + 3 * S_NS, 0);
    const struct vg_history_row *row = store_row_at(rows, 0);
    assert_int_equal(row->lost_to->len, 4);
    assert_int_equal(store_lost_to(row, "vm-11"), 111);
    assert_int_equal(store_lost_to(row, "vm-9"), 109);
    assert_int_equal(store_lost_to(row, "rest"), 9 * 100 + 36);
    assert_string_equal(g_array_index(row->lost_to, struct vg_history_loss, 0).aggressor, "rest");
    assert_int_equal(store_lost_to_all(row, &count), 12 * 100 + 66);
    assert_int_equal(count, 66);
    assert_int_equal(store_row_at(rows, 1)->lost_to->len, 1);
    assert_int_equal(store_lost_to(store_row_at(rows, 1), "rest"), 12 * 100 + 66);
    assert_int_equal(store_row_at(rows, 2)->lost_to->len, 0);
    vg_store_free(store);
}

/* ---- sums ---- */

/* More than an hour, in steps of all kinds, before and after the store was closed. */
static void
test_sums(void **state)
{
    static const int64_t steps[] = {S_NS, 10 * S_NS, MIN_NS, 90 * S_NS, 10 * MIN_NS, HOUR_NS};
    int64_t first = T0 + 10 * HOUR_NS - 150 * S_NS;
    int64_t last = T0 + 11 * HOUR_NS + 75 * S_NS;
    vg_store *store = store_open(*state);

    for (int64_t t = first; t < last; t += 300 * S_NS)
        store_put_seconds(store, "a", t, (int)(MIN(300 * S_NS, last - t) / S_NS), 2);
    for (int round = 0; round < 2; round++) {
        for (guint i = 0; i < G_N_ELEMENTS(steps); i++)
            store_assert_steps(store, round, first, last, steps[i]);
        vg_store_free(store);
        store = store_open(*state);
    }
    /* Closing has summed what is not yet whole, too. */
    assert_int_equal(store_ask(*state, "ts1m-202611.db", "SELECT count(*) FROM win"), 3 + 60 + 2);
    assert_int_equal(store_ask(*state, "ts1h-2026.db", "SELECT count(*) FROM win"), 3);
    assert_int_equal(store_ask(*state, "ts1h-2026.db", "SELECT sum(windows) FROM win"),
                     (last - first) / S_NS);
    assert_int_equal(store_ask(*state, "ts-20261120.db", "SELECT count(*) FROM stale"), 0);
    assert_int_equal(store_ask(*state, "ts1m-202611.db", "SELECT count(*) FROM stale"), 0);
    /* The sums alone answer when the windows are gone. */
    vg_store_free(store);
    g_autofree char *day = g_build_filename(*state, "ts-20261120.db", NULL);
    assert_int_equal(g_remove(day), 0);
    store = store_open(*state);
    store_assert_steps(store, 1, first, last, MIN_NS);
    store_assert_steps(store, 1, first, last, HOUR_NS);
    vg_store_free(store);
}

/* What is written again is summed again; what is shorter now leaves nothing. */
static void
test_sums_after_replay(void **state)
{
    vg_store *store = store_open(*state);

    for (int i = 0; i < 30; i++)
        store_case_put(store, "a", T0 + i * 10 * S_NS, T0 + (i + 1) * 10 * S_NS, 2);
    assert_true(vg_store_flush(store, STORE_LONG_NS));
    vg_store_free(store);
    store = store_open(*state);
    store_put_seconds(store, "a", T0, 300, 2);
    store_assert_steps(store, 1, T0, T0 + 300 * S_NS, MIN_NS);
    store_assert_steps(store, 1, T0, T0 + 300 * S_NS, HOUR_NS);
    vg_store_free(store);
    assert_int_equal(store_ask(*state, "ts1h-2026.db", "SELECT sum(windows) FROM win"), 300);
    assert_int_equal(store_ask(*state, "ts1m-202611.db", "SELECT count(*) FROM win"), 5);
}

/* Ended and begun again in the middle of a minute, and of an hour. */
static void
test_sums_after_restart(void **state)
{
    for (int i = 0; i < 5; i++) {
        vg_store *store = store_open(*state);
        store_put_seconds(store, "a", T0 + i * 25 * S_NS, 25, 2);
        store_assert_steps(store, 1, T0, T0 + (i + 1) * 25 * S_NS, MIN_NS);
        store_assert_steps(store, 1, T0, T0 + (i + 1) * 25 * S_NS, HOUR_NS);
        vg_store_free(store);
        assert_int_equal(store_ask(*state, "ts1m-202611.db", "SELECT sum(windows) FROM win"),
                         (i + 1) * 25);
        assert_int_equal(store_ask(*state, "ts1h-2026.db", "SELECT sum(windows) FROM win"),
                         (i + 1) * 25);
    }
}

/* A file of sums that is gone is made again from what is finer. */
static void
test_sums_made_again(void **state)
{
    static const char *const files[] = {"ts1m-202611.db", "ts1h-2026.db"};
    vg_store *store = store_open(*state);

    store_put_seconds(store, "a", T0, 150, 2);
    vg_store_free(store);
    for (guint i = 0; i < G_N_ELEMENTS(files); i++) {
        g_autofree char *path = g_build_filename(*state, files[i], NULL);
        assert_int_equal(g_remove(path), 0);
        store = store_open(*state);
        store_assert_steps(store, 1, T0, T0 + 150 * S_NS, MIN_NS);
        vg_store_free(store);
    }
    assert_int_equal(store_ask(*state, "ts1m-202611.db", "SELECT sum(windows) FROM win"), 150);
    assert_int_equal(store_ask(*state, "ts1h-2026.db", "SELECT sum(windows) FROM win"), 150);
}

static void
test_gaps(void **state)
{
    vg_store *store = store_open(*state);

    store_put_seconds(store, "a", T0, 60, 1);
    store_put_seconds(store, "a", T0 + 3 * HOUR_NS, 60, 1);
    store_put_seconds(store, "a", T0 + 30 * DAY_NS, 60, 1);
    g_autoptr(GArray) rows = store_read_rows(store, 0, T0, T0 + 40 * DAY_NS, MIN_NS);
    assert_int_equal(rows->len, 3);
    store_assert_sums(store_row_at(rows, 1), 0, T0 + 3 * HOUR_NS, T0 + 3 * HOUR_NS + MIN_NS);
    g_autoptr(GArray) hours = store_read_rows(store, 0, T0, T0 + 40 * DAY_NS, HOUR_NS);
    assert_int_equal(hours->len, 3);
    vg_store_free(store);
}

/* ---- queries ---- */

static void
assert_error(vg_store *store, const struct vg_history_query *query, enum vg_error_code code)
{
    g_autoptr(GError) error = NULL;

    assert_null(vg_store_read_samples(store, query, &error));
    if (!g_error_matches(error, VG_ERROR, (int)code))
        fail_msg("%s", error->message);
}

static void
test_limits(void **state)
{
    vg_store *store = store_open(*state);
    char key[VG_VM_NAME_MAX];
    struct vg_history_query query = {
        .vm = store_case_key(0, key), .since_ns = T0, .until_ns = T0 + 10 * HOUR_NS};
    struct vg_window window;

    /* Of one VM that loses to nobody. */
    store_case_window(&window, T0 - S_NS, T0, 1);
    g_array_set_size(g_array_index(window.vms, struct vg_vm_sample, 0).lost_to, 0);
    for (int i = 0; i <= VG_HISTORY_ROWS_MAX; i++) {
        window.begin_ns = window.end_ns;
        window.end_ns += S_NS;
        store_case_put_window(store, "a", &window, 0);
        /* In pieces that fit into memory. */
        if (i % 500 == 0)
            assert_true(vg_store_flush(store, STORE_LONG_NS));
    }
    assert_true(vg_store_flush(store, STORE_LONG_NS));
    vg_window_clear(&window);
    assert_error(store, &query, VG_E_INVALID);
    query.step_ns = S_NS;
    assert_error(store, &query, VG_E_INVALID);
    query.until_ns = T0 + VG_HISTORY_ROWS_MAX * S_NS;
    g_autoptr(GArray) rows = vg_store_read_samples(store, &query, NULL);
    assert_int_equal(rows->len, VG_HISTORY_ROWS_MAX);
    query.step_ns = S_NS - 1;
    assert_error(store, &query, VG_E_INVALID);
    query.step_ns = -1;
    assert_error(store, &query, VG_E_INVALID);
    vg_store_free(store);
}

static void
test_not_found(void **state)
{
    vg_store *store = store_open(*state);
    struct vg_history_query query = {.vm = "vm-1", .since_ns = T0, .until_ns = T0 + MIN_NS};

    assert_error(store, &query, VG_E_NOT_FOUND);
    store_put_seconds(store, "a", T0, 2, 2);
    query.since_ns = T0 + HOUR_NS;
    query.until_ns = T0 + 2 * HOUR_NS;
    g_autoptr(GArray) rows = vg_store_read_samples(store, &query, NULL);
    assert_int_equal(rows->len, 0);
    query.vm = "nobody";
    assert_error(store, &query, VG_E_NOT_FOUND);
    query.vm = "";
    assert_error(store, &query, VG_E_INVALID);
    vg_store_free(store);
}

static void
test_newest_source(void **state)
{
    vg_store *store = store_open(*state);

    store_put_seconds(store, "old", T0, 10, 3);
    store_put_seconds(store, "new", T0 + 5 * S_NS, 10, 2);
    store_put_seconds(store, "other-day", T0 + DAY_NS, 3, 1);
    g_autoptr(GArray) both = store_read_rows(store, 1, T0, T0 + MIN_NS, 0);
    assert_int_equal(both->len, 10);
    assert_int_equal(store_row_at(both, 0)->end_ns, T0 + 6 * S_NS);
    /* Of VM 2 only one has heard. */
    g_autoptr(GArray) third = store_read_rows(store, 2, T0, T0 + 2 * DAY_NS, 0);
    assert_int_equal(third->len, 10);
    assert_int_equal(store_row_at(third, 0)->end_ns, T0 + S_NS);
    /* In this period only the old one has windows. */
    g_autoptr(GArray) early = store_read_rows(store, 1, T0, T0 + 5 * S_NS, 0);
    assert_int_equal(early->len, 5);
    g_autoptr(GArray) late = store_read_rows(store, 0, T0, T0 + 2 * DAY_NS, 0);
    assert_int_equal(late->len, 3);
    vg_store_free(store);
}

/* The sums of a host over windows that end in since < t <= until: those of each window, added up.
 */
static void
assert_host(vg_store *store, int64_t since_ns, int64_t until_ns, int64_t first_ns, int64_t last_ns,
            guint vms)
{
    struct vg_history_query query = {.since_ns = since_ns, .until_ns = until_ns};
    g_autoptr(GError) err = NULL;
    g_autoptr(vg_history_host) host = vg_store_read_host(store, &query, &err);
    char buf[VG_VM_NAME_MAX];

    assert_null(err);
    int64_t from_ns = MAX(since_ns, first_ns), to_ns = MIN(until_ns, last_ns);
    int64_t begin_ns = from_ns + (S_NS - from_ns % S_NS) % S_NS, end_ns = to_ns - to_ns % S_NS;
    /* A window that begins before since counts if it ends after it. */
    if (begin_ns > from_ns)
        begin_ns -= S_NS;
    assert_int_equal(host->windows, (end_ns - begin_ns) / S_NS);
    assert_int_equal(host->begin_ns, begin_ns);
    assert_int_equal(host->end_ns, end_ns);
    assert_int_equal(host->length_ns, end_ns - begin_ns);
    assert_int_equal(host->lost_events, 3 * host->windows);
    assert_int_equal(host->vms->len, vms);
    for (guint i = 0; i < vms; i++) {
        const struct vg_history_vm *vm = host->vms->pdata[i];
        assert_string_equal(vm->key, store_case_key(i, buf));
        assert_string_equal(vm->name, store_case_name(i, buf));
        assert_int_equal(vm->row.windows, host->windows);
        store_assert_sums(&vm->row, i, begin_ns, end_ns);
    }
}

/* More than an hour, so that it, minutes and windows have a part in it. */
static void
test_host(void **state)
{
    enum { SECONDS = 3600 + 330 + 150, VMS = 2 };
    const int64_t first = T0 + (3600 - 330) * S_NS, last = first + SECONDS * S_NS;
    vg_store *store = store_open(*state);

    /* In pieces that fit into memory. */
    for (int i = 0; i < SECONDS; i += 500)
        store_put_seconds(store, "live", first + i * S_NS, MIN(500, SECONDS - i), VMS);
    /* Summed up as far as it goes, then all of it; and from another connection. */
    for (int run = 0; run < 2; run++) {
        assert_host(store, first, last, first, last, VMS);
        assert_host(store, T0, T0 + DAY_NS, first, last, VMS);
        /* Edges in no minute, in no hour, and within a window. */
        assert_host(store, first + 77 * S_NS, last - 99 * S_NS, first, last, VMS);
        assert_host(store, first + 500 * VG_NS_PER_MS, last - 500 * VG_NS_PER_MS, first, last, VMS);
        assert_host(store, T0 + HOUR_NS, T0 + 2 * HOUR_NS, first, last, VMS);
        assert_host(store, T0 + HOUR_NS - S_NS, T0 + 2 * HOUR_NS + S_NS, first, last, VMS);
        assert_host(store, T0 + HOUR_NS + 5 * S_NS, T0 + HOUR_NS + 10 * S_NS, first, last, VMS);
        vg_store_free(store);
        store = store_open(*state);
    }
    /* Nothing of that time, and nothing of that source. */
    struct vg_history_query query = {.since_ns = T0 + 2 * DAY_NS, .until_ns = T0 + 3 * DAY_NS};
    g_autoptr(vg_history_host) later = vg_store_read_host(store, &query, NULL);
    assert_int_equal(later->windows, 0);
    assert_int_equal(later->vms->len, 0);
    query = (struct vg_history_query){.source = "x", .since_ns = T0, .until_ns = last};
    g_autoptr(vg_history_host) other = vg_store_read_host(store, &query, NULL);
    assert_int_equal(other->windows, 0);
    vg_store_free(store);
}

/* Windows that are not on disk yet count, and replace what they overlap. */
static void
test_host_in_memory(void **state)
{
    vg_store *store = store_open(*state);
    struct vg_history_query query = {.since_ns = T0, .until_ns = T0 + DAY_NS};

    store_put_seconds(store, "live", T0, 100, 2);
    vg_store_free(store);
    /* Another store has the directory: nothing that this one gets can be written. */
    vg_store *holder = store_open(*state);
    store = store_open(*state);
    store_case_put(store, "live", T0 + 90 * S_NS, T0 + 92 * S_NS, 2);
    store_case_put(store, "live", T0 + 100 * S_NS, T0 + 101 * S_NS, 2);
    g_autoptr(vg_history_host) host = vg_store_read_host(store, &query, NULL);
    assert_int_equal(host->windows, 100 - 2 + 1 + 1);
    assert_int_equal(host->length_ns, 101 * S_NS);
    assert_int_equal(host->end_ns, T0 + 101 * S_NS);
    vg_store_free(holder);
    vg_store_free(store);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, store_set_up, store_tear_down)

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(test_round_trip),
        CASE(test_clock_offset),
        CASE(test_replace),
        CASE(test_find_vm),
        CASE(test_deadline),
        CASE(test_days),
        CASE(test_two_processes_of_one_vm),
        CASE(test_lost_top),
        CASE(test_sums),
        CASE(test_sums_after_replay),
        CASE(test_sums_after_restart),
        CASE(test_sums_made_again),
        CASE(test_gaps),
        CASE(test_limits),
        CASE(test_not_found),
        CASE(test_newest_source),
        CASE(test_host),
        CASE(test_host_in_memory),
    };

    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
