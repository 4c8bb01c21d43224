/* SPDX-License-Identifier: Apache-2.0
 *
 * The store on a real directory: what is put comes back, sums are those of the windows, and what
 * happens when the disk does not play along.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <sqlite3.h>

#include "base/error.h"
#include "base/log.h"
#include "store-cases.h"
#include "store/store-time.h"

#define T0          MIDNIGHT_NS
#define LONG        (10 * S_NS)
#define PATIENCE_NS (20 * S_NS)

/* ---- helpers ---- */

static vg_store *
open_store(const char *directory)
{
    struct vg_store_options options = store_case_options(directory);
    vg_store *store = vg_store_new(&options, NULL);

    assert_non_null(store);
    return store;
}

/* One second windows first < t <= first + n, all on disk. */
static void
put_seconds(vg_store *store, const char *source, int64_t first_ns, int n, guint vms)
{
    for (int i = 0; i < n; i++)
        store_case_put(store, source, first_ns + i * S_NS, first_ns + (i + 1) * S_NS, vms);
    assert_true(vg_store_flush(store, LONG));
}

static GArray *
read_rows(vg_store *store, guint vm, int64_t since_ns, int64_t until_ns, int64_t step_ns)
{
    char key[VG_VM_NAME_MAX];
    struct vg_history_query query = {.vm = store_case_key(vm, key),
                                     .since_ns = since_ns,
                                     .until_ns = until_ns,
                                     .step_ns = step_ns};
    g_autoptr(GError) error = NULL;
    GArray *rows = vg_store_read_samples(store, &query, &error);

    if (!rows)
        fail_msg("%s", error->message);
    return rows;
}

static const struct vg_history_row *
row_at(const GArray *rows, guint i)
{
    assert_true(i < rows->len);
    return &g_array_index(rows, struct vg_history_row, i);
}

static int64_t
lost_to(const struct vg_history_row *row, const char *aggressor)
{
    for (guint i = 0; i < row->lost_to->len; i++) {
        const struct vg_history_loss *loss =
            &g_array_index(row->lost_to, struct vg_history_loss, i);
        if (strcmp(loss->aggressor, aggressor) == 0)
            return loss->ns;
    }
    return -1;
}

static int64_t
lost_to_all(const struct vg_history_row *row, uint64_t *ret_count)
{
    int64_t ns = 0;

    *ret_count = 0;
    for (guint i = 0; i < row->lost_to->len; i++) {
        const struct vg_history_loss *loss =
            &g_array_index(row->lost_to, struct vg_history_loss, i);
        ns += loss->ns;
        *ret_count += loss->count;
    }
    return ns;
}

/* The row has the sums over one-second windows first < end <= last. */
static void
assert_sums(const struct vg_history_row *row, guint vm, int64_t first_ns, int64_t last_ns)
{
    struct vg_cpu_figures sum = {0};
    int64_t windows = (last_ns - first_ns) / S_NS;
    int64_t self = 0, lost = 0;
    uint64_t count;

    for (int64_t end = first_ns + S_NS; end <= last_ns; end += S_NS) {
        struct vg_cpu_figures cpu = store_case_figures(end - S_NS, end, vm);
        vg_cpu_figures_add(&sum, &cpu);
        self += store_case_lost_ns(end, vm, 0);
        for (guint i = 0; i < STORE_CASE_LOSSES; i++)
            lost += store_case_lost_ns(end, vm, i);
    }
    assert_int_equal(row->begin_ns, first_ns);
    assert_int_equal(row->end_ns, last_ns);
    assert_int_equal(row->windows, windows);
    assert_memory_equal(&row->cpu, &sum, sizeof(sum));
    assert_int_equal(row->lost_events, 3 * windows);
    assert_int_equal(lost_to(row, "self"), self);
    assert_int_equal(lost_to_all(row, &count), lost);
    assert_int_equal(count, windows * (1 + 2 + 3 + 4));
    assert_true(row->guest_known);
    assert_int_equal(row->gpu_known, vm == 0);
    assert_int_equal(row->gpu_active_ns, vm == 0 ? windows * S_NS / 4 : 0);
}

/* The same, for rows of `step` seconds each from first on. */
static void
assert_steps(vg_store *store, guint vm, int64_t first_ns, int64_t last_ns, int64_t step_ns)
{
    g_autoptr(GArray) rows = read_rows(store, vm, first_ns, last_ns, step_ns);
    guint n = 0;

    for (int64_t begin = first_ns; begin < last_ns;) {
        int64_t end = MIN(vg_store_period_end(begin + 1, step_ns), last_ns);
        assert_sums(row_at(rows, n++), vm, begin, end);
        begin = end;
    }
    assert_int_equal(rows->len, n);
}

static bool
exists(const char *directory, const char *name)
{
    g_autofree char *path = g_build_filename(directory, name, NULL);

    return g_file_test(path, G_FILE_TEST_EXISTS);
}

/* One number out of a file, past the store; INT64_MIN if there is none. */
static int64_t
ask(const char *directory, const char *name, const char *sql)
{
    g_autofree char *path = g_build_filename(directory, name, NULL);
    sqlite3_stmt *statement = NULL;
    int64_t number = INT64_MIN;
    sqlite3 *db;

    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    sqlite3_busy_timeout(db, 1000);
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) == SQLITE_OK &&
        sqlite3_step(statement) == SQLITE_ROW)
        number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(db);
    return number;
}

static void
run_sql(const char *path, const char *sql)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* Until the state is that, or time is over. */
static void
wait_for_state(vg_store *store, enum vg_store_state state, struct vg_store_health *ret)
{
    int64_t until = vg_clock_monotonic_ns() + PATIENCE_NS;

    do {
        vg_store_read_health(store, ret);
        if (ret->state == state)
            return;
        g_usleep(1000);
    } while (vg_clock_monotonic_ns() < until);
    fail_msg("state is %s (%s), not %s", vg_store_state_names[ret->state], ret->reason,
             vg_store_state_names[state]);
}

/* Until nothing waits to be written. */
static void
wait_until_written(vg_store *store)
{
    int64_t until = vg_clock_monotonic_ns() + PATIENCE_NS;

    while (!vg_store_flush(store, LONG)) {
        assert_true(vg_clock_monotonic_ns() < until);
        g_usleep(1000);
    }
}

static int
set_up(void **state)
{
    *state = store_case_directory();
    vg_log_set_level(VG_LOG_ERR - 1);
    return 0;
}

static int
tear_down(void **state)
{
    store_case_remove(*state);
    return 0;
}

/* ---- windows ---- */

static void
test_round_trip(void **state)
{
    vg_store *store = open_store(*state);
    struct vg_store_health health;

    put_seconds(store, "procfs", T0, 5, 4);
    for (guint vm = 0; vm < 4; vm++) {
        g_autoptr(GArray) rows = read_rows(store, vm, T0, T0 + 5 * S_NS, 0);
        assert_int_equal(rows->len, 5);
        for (guint i = 0; i < 5; i++)
            assert_sums(row_at(rows, i), vm, T0 + i * S_NS, T0 + (i + 1) * S_NS);
    }
    vg_store_read_health(store, &health);
    assert_int_equal(health.state, VG_STORE_OK);
    assert_int_equal(health.committed, 5);
    assert_int_equal(health.pending, 0);
    assert_int_equal(health.newest_ns, T0 + 5 * S_NS);
    assert_int_equal(vg_store_backlog(store), 0);
    assert_true(exists(*state, "ts-20261120.db"));
    vg_store_free(store);
    /* The bounds of a query: after since, not after until. */
    store = open_store(*state);
    g_autoptr(GArray) rows = read_rows(store, 1, T0 + S_NS, T0 + 3 * S_NS, 0);
    assert_int_equal(rows->len, 2);
    assert_sums(row_at(rows, 0), 1, T0 + S_NS, T0 + 2 * S_NS);
    vg_store_free(store);
}

static void
test_clock_offset(void **state)
{
    vg_store *store = open_store(*state);
    struct vg_window window;

    store_case_window(&window, 10 * S_NS, 11 * S_NS, 2);
    vg_store_put_window(store, "trace", &window, T0);
    /* Nothing to store: no length, and times that no clock shows. */
    vg_store_put_window(store, "trace", &window, INT64_MAX - S_NS);
    window.begin_ns = window.end_ns;
    vg_store_put_window(store, "trace", &window, T0);
    vg_window_clear(&window);
    assert_true(vg_store_flush(store, LONG));
    g_autoptr(GArray) rows = read_rows(store, 0, INT64_MIN, INT64_MAX, 0);
    assert_int_equal(rows->len, 1);
    assert_int_equal(row_at(rows, 0)->end_ns, T0 + 11 * S_NS);
    vg_store_free(store);
}

static void
test_replace(void **state)
{
    vg_store *store = open_store(*state);
    struct vg_window window;

    put_seconds(store, "a", T0, 30, 2);
    put_seconds(store, "b", T0, 30, 2);
    /* The same window again, with other figures. */
    store_case_window(&window, T0 + 3 * S_NS, T0 + 4 * S_NS, 2);
    g_array_index(window.vms, struct vg_vm_sample, 0).cpu.clipped = 77;
    vg_store_put_window(store, "a", &window, 0);
    vg_window_clear(&window);
    assert_true(vg_store_flush(store, LONG));
    char key[VG_VM_NAME_MAX];
    struct vg_history_query query = {
        .vm = store_case_key(0, key), .source = "a", .since_ns = T0, .until_ns = T0 + MIN_NS};
    GArray *rows = vg_store_read_samples(store, &query, NULL);
    assert_int_equal(rows->len, 30);
    assert_int_equal(row_at(rows, 3)->cpu.clipped, 77);
    g_array_unref(rows);
    /* Longer windows, which lie across those that are there. */
    for (int i = 0; i < 3; i++)
        store_case_put(store, "a", T0 + (i * 7 + 2) * S_NS + 5, T0 + (i * 7 + 9) * S_NS + 5, 2);
    assert_true(vg_store_flush(store, LONG));
    rows = vg_store_read_samples(store, &query, NULL);
    /* 2 before, 3 long ones over 2..23, 6 after the one that ends at 24. */
    assert_int_equal(rows->len, 2 + 3 + 6);
    assert_int_equal(row_at(rows, 2)->begin_ns, T0 + 2 * S_NS + 5);
    assert_int_equal(row_at(rows, 5)->begin_ns, T0 + 24 * S_NS);
    g_array_unref(rows);
    query.source = "b";
    rows = vg_store_read_samples(store, &query, NULL);
    assert_int_equal(rows->len, 30);
    g_array_unref(rows);
    vg_store_free(store);
}

static void
test_days(void **state)
{
    vg_store *store = open_store(*state);
    int64_t midnight = T0 + DAY_NS;

    put_seconds(store, "a", midnight - 5 * S_NS, 10, 2);
    assert_int_equal(ask(*state, "ts-20261120.db", "SELECT count(*) FROM win"), 4);
    assert_int_equal(ask(*state, "ts-20261121.db", "SELECT count(*) FROM win"), 6);
    assert_steps(store, 1, midnight - 5 * S_NS, midnight + 5 * S_NS, S_NS);
    assert_steps(store, 1, midnight - 5 * S_NS, midnight + 5 * S_NS, MIN_NS);
    /* One window over midnight, and back to short ones: nothing of the others stays. */
    store_case_put(store, "a", midnight - 4 * S_NS, midnight + 3 * S_NS, 2);
    assert_true(vg_store_flush(store, LONG));
    g_autoptr(GArray) rows = read_rows(store, 0, T0, midnight + DAY_NS, 0);
    assert_int_equal(rows->len, 1 + 1 + 2);
    store_case_put(store, "a", midnight - 3 * S_NS, midnight - 2 * S_NS, 2);
    assert_true(vg_store_flush(store, LONG));
    g_autoptr(GArray) again = read_rows(store, 0, T0, midnight + DAY_NS, 0);
    assert_int_equal(again->len, 1 + 1 + 2);
    assert_int_equal(row_at(again, 1)->end_ns, midnight - 2 * S_NS);
    vg_store_free(store);
}

/* Two processes with one UUID in a window (a VM that was started again) are one VM. */
static void
test_two_processes_of_one_vm(void **state)
{
    vg_store *store = open_store(*state);
    struct vg_window window;

    store_case_window(&window, T0, T0 + S_NS, 3);
    struct vg_vm_sample *third = &g_array_index(window.vms, struct vg_vm_sample, 2);
    struct vg_cpu_figures sum = third->cpu;
    const struct vg_vm_sample *first = &g_array_index(window.vms, struct vg_vm_sample, 0);
    vg_cpu_figures_add(&sum, &first->cpu);
    g_strlcpy(third->uuid, first->uuid, sizeof(third->uuid));
    vg_store_put_window(store, "a", &window, 0);
    vg_window_clear(&window);
    assert_true(vg_store_flush(store, LONG));
    g_autoptr(GArray) rows = read_rows(store, 0, T0, T0 + S_NS, 0);
    assert_int_equal(rows->len, 1);
    assert_int_equal(row_at(rows, 0)->windows, 1);
    assert_memory_equal(&row_at(rows, 0)->cpu, &sum, sizeof(sum));
    g_autoptr(GArray) other = read_rows(store, 1, T0, T0 + S_NS, 0);
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
    vg_store_put_window(store, "a", &window, 0);
    assert_true(vg_store_flush(store, LONG));
    options.lost_top = 0;
    vg_store_set_limits(store, &options);
    window.begin_ns += S_NS;
    window.end_ns += S_NS;
    vg_store_put_window(store, "a", &window, 0);
    vg_window_clear(&window);
    assert_true(vg_store_flush(store, LONG));
    g_autoptr(GArray) rows = read_rows(store, 0, T0, T0 + 2 * S_NS, 0);
    const struct vg_history_row *row = row_at(rows, 0);
    assert_int_equal(row->lost_to->len, 4);
    assert_int_equal(lost_to(row, "vm-11"), 111);
    assert_int_equal(lost_to(row, "vm-9"), 109);
    assert_int_equal(lost_to(row, "rest"), 9 * 100 + 36);
    assert_string_equal(g_array_index(row->lost_to, struct vg_history_loss, 0).aggressor, "rest");
    assert_int_equal(lost_to_all(row, &count), 12 * 100 + 66);
    assert_int_equal(count, 66);
    assert_int_equal(row_at(rows, 1)->lost_to->len, 1);
    assert_int_equal(lost_to(row_at(rows, 1), "rest"), 12 * 100 + 66);
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
    vg_store *store = open_store(*state);

    for (int64_t t = first; t < last; t += 300 * S_NS)
        put_seconds(store, "a", t, (int)(MIN(300 * S_NS, last - t) / S_NS), 2);
    for (int round = 0; round < 2; round++) {
        for (guint i = 0; i < G_N_ELEMENTS(steps); i++)
            assert_steps(store, round, first, last, steps[i]);
        vg_store_free(store);
        store = open_store(*state);
    }
    /* Closing has summed what is not yet whole, too. */
    assert_int_equal(ask(*state, "ts1m-202611.db", "SELECT count(*) FROM win"), 3 + 60 + 2);
    assert_int_equal(ask(*state, "ts1h-2026.db", "SELECT count(*) FROM win"), 3);
    assert_int_equal(ask(*state, "ts1h-2026.db", "SELECT sum(windows) FROM win"),
                     (last - first) / S_NS);
    assert_int_equal(ask(*state, "ts-20261120.db", "SELECT count(*) FROM stale"), 0);
    assert_int_equal(ask(*state, "ts1m-202611.db", "SELECT count(*) FROM stale"), 0);
    /* The sums alone answer when the windows are gone. */
    vg_store_free(store);
    g_autofree char *day = g_build_filename(*state, "ts-20261120.db", NULL);
    assert_int_equal(g_remove(day), 0);
    store = open_store(*state);
    assert_steps(store, 1, first, last, MIN_NS);
    assert_steps(store, 1, first, last, HOUR_NS);
    vg_store_free(store);
}

/* What is written again is summed again; what is shorter now leaves nothing. */
static void
test_sums_after_replay(void **state)
{
    vg_store *store = open_store(*state);

    for (int i = 0; i < 30; i++)
        store_case_put(store, "a", T0 + i * 10 * S_NS, T0 + (i + 1) * 10 * S_NS, 2);
    assert_true(vg_store_flush(store, LONG));
    vg_store_free(store);
    store = open_store(*state);
    put_seconds(store, "a", T0, 300, 2);
    assert_steps(store, 1, T0, T0 + 300 * S_NS, MIN_NS);
    assert_steps(store, 1, T0, T0 + 300 * S_NS, HOUR_NS);
    vg_store_free(store);
    assert_int_equal(ask(*state, "ts1h-2026.db", "SELECT sum(windows) FROM win"), 300);
    assert_int_equal(ask(*state, "ts1m-202611.db", "SELECT count(*) FROM win"), 5);
}

/* A file of sums that is gone is made again from what is finer. */
static void
test_sums_made_again(void **state)
{
    static const char *const files[] = {"ts1m-202611.db", "ts1h-2026.db"};
    vg_store *store = open_store(*state);

    put_seconds(store, "a", T0, 150, 2);
    vg_store_free(store);
    for (guint i = 0; i < G_N_ELEMENTS(files); i++) {
        g_autofree char *path = g_build_filename(*state, files[i], NULL);
        assert_int_equal(g_remove(path), 0);
        store = open_store(*state);
        assert_steps(store, 1, T0, T0 + 150 * S_NS, MIN_NS);
        vg_store_free(store);
    }
    assert_int_equal(ask(*state, "ts1m-202611.db", "SELECT sum(windows) FROM win"), 150);
    assert_int_equal(ask(*state, "ts1h-2026.db", "SELECT sum(windows) FROM win"), 150);
}

static void
test_gaps(void **state)
{
    vg_store *store = open_store(*state);

    put_seconds(store, "a", T0, 60, 1);
    put_seconds(store, "a", T0 + 3 * HOUR_NS, 60, 1);
    put_seconds(store, "a", T0 + 30 * DAY_NS, 60, 1);
    g_autoptr(GArray) rows = read_rows(store, 0, T0, T0 + 40 * DAY_NS, MIN_NS);
    assert_int_equal(rows->len, 3);
    assert_sums(row_at(rows, 1), 0, T0 + 3 * HOUR_NS, T0 + 3 * HOUR_NS + MIN_NS);
    g_autoptr(GArray) hours = read_rows(store, 0, T0, T0 + 40 * DAY_NS, HOUR_NS);
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
    vg_store *store = open_store(*state);
    struct vg_history_query query = {.vm = "vm-1", .since_ns = T0, .until_ns = T0 + 10 * HOUR_NS};

    for (int i = 0; i <= VG_HISTORY_ROWS_MAX; i += 500)
        put_seconds(store, "a", T0 + i * S_NS, MIN(500, VG_HISTORY_ROWS_MAX + 1 - i), 2);
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
    vg_store *store = open_store(*state);
    struct vg_history_query query = {.vm = "vm-1", .since_ns = T0, .until_ns = T0 + MIN_NS};

    assert_error(store, &query, VG_E_NOT_FOUND);
    put_seconds(store, "a", T0, 2, 2);
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
    vg_store *store = open_store(*state);

    put_seconds(store, "old", T0, 10, 3);
    put_seconds(store, "new", T0 + 5 * S_NS, 10, 2);
    put_seconds(store, "other-day", T0 + DAY_NS, 3, 1);
    g_autoptr(GArray) both = read_rows(store, 1, T0, T0 + MIN_NS, 0);
    assert_int_equal(both->len, 10);
    assert_int_equal(row_at(both, 0)->end_ns, T0 + 6 * S_NS);
    /* Of VM 2 only one has heard. */
    g_autoptr(GArray) third = read_rows(store, 2, T0, T0 + 2 * DAY_NS, 0);
    assert_int_equal(third->len, 10);
    assert_int_equal(row_at(third, 0)->end_ns, T0 + S_NS);
    /* In this period only the old one has windows. */
    g_autoptr(GArray) early = read_rows(store, 1, T0, T0 + 5 * S_NS, 0);
    assert_int_equal(early->len, 5);
    g_autoptr(GArray) late = read_rows(store, 0, T0, T0 + 2 * DAY_NS, 0);
    assert_int_equal(late->len, 3);
    vg_store_free(store);
}

/* ---- plans ---- */

static void
save_plan(vg_store *store, const char *id, int64_t made_ns)
{
    struct vg_saved_plan plan = {
        .id = (char *)id, .made_ns = made_ns, .verdict = (char *)"moves", .text = (char *)"{}"};

    assert_int_equal(vg_store_save_plan(store, &plan, NULL), 0);
}

static void
test_plans(void **state)
{
    vg_store *store = open_store(*state);
    g_autoptr(GError) error = NULL;

    GPtrArray *list = vg_store_list_plans(store, INT64_MAX, 10, NULL);
    assert_int_equal(list->len, 0);
    g_ptr_array_unref(list);
    for (int i = 0; i < VG_STORE_PLANS_MAX + 5; i++) {
        g_autofree char *id = g_strdup_printf("plan-%d", i);
        save_plan(store, id, T0 + i);
    }
    save_plan(store, "plan-100", T0 + 9999); /* known: changes nothing */
    vg_store_free(store);
    store = open_store(*state);
    list = vg_store_list_plans(store, INT64_MAX, 5000, NULL);
    assert_int_equal(list->len, VG_STORE_PLANS_MAX);
    const struct vg_saved_plan *newest = list->pdata[0];
    assert_string_equal(newest->id, "plan-1004");
    assert_string_equal(newest->verdict, "moves");
    assert_null(newest->text);
    g_ptr_array_unref(list);
    list = vg_store_list_plans(store, T0 + 8, 2, NULL);
    assert_int_equal(list->len, 2);
    assert_string_equal(((struct vg_saved_plan *)list->pdata[0])->id, "plan-7");
    g_ptr_array_unref(list);
    struct vg_saved_plan *plan = vg_store_read_plan(store, "plan-100", NULL);
    assert_int_equal(plan->made_ns, T0 + 100);
    assert_string_equal(plan->text, "{}");
    vg_saved_plan_free(plan);
    assert_null(vg_store_read_plan(store, "plan-4", &error));
    assert_true(g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND));
    vg_store_free(store);
}

/* ---- trouble ---- */

static void
test_two_stores(void **state)
{
    struct vg_store_health health;
    vg_store *first = open_store(*state);

    wait_for_state(first, VG_STORE_OK, &health);
    vg_store *second = open_store(*state);
    wait_for_state(second, VG_STORE_FAILING, &health);
    assert_non_null(strstr(health.reason, "another vgpud"));
    store_case_put(second, "b", T0, T0 + S_NS, 1);
    assert_false(vg_store_flush(second, LONG));
    assert_int_equal(vg_store_backlog(second), 0);
    put_seconds(first, "a", T0, 3, 1);
    vg_store_free(first);
    wait_for_state(second, VG_STORE_OK, &health);
    wait_until_written(second);
    vg_store_free(second);
    assert_int_equal(ask(*state, "ts-20261120.db", "SELECT count(*) FROM win"), 4);
}

/* A directory cannot be made where there is a file, or no parent; and comes later. */
static void
test_directory_appears(void **state)
{
    g_autofree char *parent = g_build_filename(*state, "parent", NULL);
    g_autofree char *directory = g_build_filename(parent, "store", NULL);
    struct vg_store_health health;
    g_autoptr(GArray) none = NULL;

    assert_true(g_file_set_contents(parent, "", 0, NULL));
    vg_store *store = open_store(directory);
    wait_for_state(store, VG_STORE_FAILING, &health);
    assert_non_null(strstr(health.reason, directory));
    for (int i = 0; i < 5; i++)
        store_case_put(store, "a", T0 + i * S_NS, T0 + (i + 1) * S_NS, 1);
    save_plan(store, "plan", T0);
    /* What waits is read from memory. */
    assert_steps(store, 0, T0, T0 + 5 * S_NS, S_NS);
    struct vg_saved_plan *plan = vg_store_read_plan(store, "plan", NULL);
    assert_string_equal(plan->text, "{}");
    vg_saved_plan_free(plan);
    GPtrArray *list = vg_store_list_plans(store, INT64_MAX, 10, NULL);
    assert_int_equal(list->len, 1);
    g_ptr_array_unref(list);
    vg_store_read_health(store, &health);
    assert_int_equal(health.pending, 5);
    assert_int_equal(g_remove(parent), 0);
    g_usleep(20000); /* a missing parent is not made */
    vg_store_read_health(store, &health);
    assert_int_equal(health.state, VG_STORE_FAILING);
    assert_int_equal(g_mkdir(parent, 0750), 0);
    wait_until_written(store);
    wait_for_state(store, VG_STORE_OK, &health);
    assert_int_equal(health.committed, 5);
    vg_store_free(store);
    store = open_store(directory);
    assert_steps(store, 0, T0, T0 + 5 * S_NS, S_NS);
    plan = vg_store_read_plan(store, "plan", NULL);
    assert_non_null(plan);
    vg_saved_plan_free(plan);
    vg_store_free(store);
    store_case_remove(g_steal_pointer(&directory));
}

/* The whole directory is taken away while the store works: it begins anew, and knows it. */
static void
test_directory_vanishes(void **state)
{
    g_autofree char *directory = g_build_filename(*state, "store", NULL);
    struct vg_store_health health;

    vg_store *store = open_store(directory);
    put_seconds(store, "a", T0, 3, 1);
    store_case_remove(g_strdup(directory));
    put_seconds(store, "a", T0 + 3 * S_NS, 3, 1);
    wait_for_state(store, VG_STORE_OK, &health);
    vg_store_free(store);
    assert_int_equal(ask(directory, "ts-20261120.db", "SELECT count(*) FROM win"), 3);
    store_case_remove(g_steal_pointer(&directory));
}

static void
test_ring_is_full(void **state)
{
    g_autofree char *directory = g_build_filename(*state, "no", "where", NULL);
    struct vg_store_options options = store_case_options(directory);
    struct vg_store_health health;

    options.memory_windows = 10;
    vg_store *store = vg_store_new(&options, NULL);
    for (int i = 0; i < 25; i++)
        store_case_put(store, "a", T0 + i * S_NS, T0 + (i + 1) * S_NS, 1);
    wait_for_state(store, VG_STORE_FAILING, &health);
    vg_store_read_health(store, &health);
    assert_int_equal(health.pending, 10);
    assert_int_equal(health.dropped, 15);
    g_autoptr(GArray) rows = read_rows(store, 0, T0, T0 + MIN_NS, 0);
    assert_int_equal(rows->len, 10);
    assert_int_equal(row_at(rows, 0)->end_ns, T0 + 16 * S_NS);
    vg_store_free(store);
}

static void
test_corrupt(void **state)
{
    static const char *const names[] = {"ts-20261120.db", "ts1m-202611.db", "ts1h-2026.db",
                                        "state.db"};
    struct vg_store_health health;
    char junk[8192];

    memset(junk, 'x', sizeof(junk));
    for (guint i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *path = g_build_filename(*state, names[i], NULL);
        assert_true(g_file_set_contents(path, junk, sizeof(junk), NULL));
    }
    vg_store *store = open_store(*state);
    put_seconds(store, "a", T0, 70, 2);
    save_plan(store, "plan", T0);
    wait_for_state(store, VG_STORE_OK, &health);
    assert_steps(store, 1, T0, T0 + 70 * S_NS, MIN_NS);
    vg_store_free(store);
    for (guint i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *aside = g_strconcat(names[i], ".corrupt-1", NULL);
        g_autofree char *path = g_build_filename(*state, aside, NULL);
        g_autofree char *text = NULL;
        gsize size;
        assert_true(g_file_get_contents(path, &text, &size, NULL));
        assert_int_equal(size, sizeof(junk));
        assert_int_equal(ask(*state, names[i], "PRAGMA integrity_check"), 0);
    }
    assert_int_equal(ask(*state, "ts1h-2026.db", "SELECT sum(windows) FROM win"), 70);
}

/* Somebody else's database of that name is not written into. */
static void
test_foreign_database(void **state)
{
    g_autofree char *path = g_build_filename(*state, "ts-20261120.db", NULL);

    run_sql(path, "CREATE TABLE precious (x); INSERT INTO precious VALUES (42)");
    vg_store *store = open_store(*state);
    put_seconds(store, "a", T0, 3, 1);
    vg_store_free(store);
    assert_int_equal(ask(*state, "ts-20261120.db.corrupt-1", "SELECT x FROM precious"), 42);
    assert_int_equal(ask(*state, "ts-20261120.db", "SELECT count(*) FROM win"), 3);
}

static void
test_locked(void **state)
{
    g_autofree char *path = g_build_filename(*state, "ts-20261120.db", NULL);
    struct vg_store_health health;
    sqlite3 *db;

    vg_store *store = open_store(*state);
    put_seconds(store, "a", T0, 3, 1);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    for (int i = 3; i < 8; i++)
        store_case_put(store, "a", T0 + i * S_NS, T0 + (i + 1) * S_NS, 1);
    /* Another day is not held up. */
    store_case_put(store, "a", T0 + DAY_NS, T0 + DAY_NS + S_NS, 1);
    wait_for_state(store, VG_STORE_FAILING, &health);
    assert_non_null(strstr(health.reason, path));
    assert_non_null(strstr(health.reason, "locked"));
    assert_true(health.failures > 0);
    /* Disk and memory are one to whoever asks. */
    g_autoptr(GArray) rows = read_rows(store, 0, T0, T0 + MIN_NS, 0);
    assert_int_equal(rows->len, 8);
    assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    wait_until_written(store);
    wait_for_state(store, VG_STORE_OK, &health);
    assert_int_equal(health.committed, 9);
    assert_int_equal(health.dropped, 0);
    assert_steps(store, 0, T0, T0 + 8 * S_NS, S_NS);
    vg_store_free(store);
    assert_int_equal(ask(*state, "ts-20261120.db", "SELECT count(*) FROM win"), 8);
}

/* A version from the future is neither read nor written, and everything else goes on. */
static void
test_newer_version(void **state)
{
    g_autofree char *day = g_build_filename(*state, "ts-20261120.db", NULL);
    g_autofree char *plans = g_build_filename(*state, "state.db", NULL);
    struct vg_store_health health;

    run_sql(day, "CREATE TABLE win (odd); PRAGMA user_version = 2");
    vg_store *store = open_store(*state);
    put_seconds(store, "a", T0 + DAY_NS, 3, 1);
    g_autoptr(GArray) rows = read_rows(store, 0, T0, T0 + 2 * DAY_NS, MIN_NS);
    assert_int_equal(rows->len, 1);
    wait_for_state(store, VG_STORE_OK, &health);
    store_case_put(store, "a", T0, T0 + S_NS, 1);
    wait_for_state(store, VG_STORE_FAILING, &health);
    assert_non_null(strstr(health.reason, day));
    assert_non_null(strstr(health.reason, "version 2, this program knows versions up to 1"));
    vg_store_free(store);
    assert_int_equal(ask(*state, "ts-20261120.db", "PRAGMA user_version"), 2);
    assert_int_equal(g_remove(plans), 0);

    run_sql(plans, "CREATE TABLE plan (odd); PRAGMA user_version = 2");
    store = open_store(*state);
    wait_for_state(store, VG_STORE_FAILING, &health);
    assert_non_null(strstr(health.reason, plans));
    put_seconds(store, "a", T0 + DAY_NS, 3, 1);
    vg_store_free(store);
    assert_int_equal(ask(*state, "state.db", "SELECT count(*) FROM plan"), 0);
}

/* ---- time ---- */

static void
test_retention(void **state)
{
    int64_t today = vg_clock_realtime_ns() / DAY_NS * DAY_NS;
    struct vg_store_options options = store_case_options(*state);
    char name[VG_STORE_NAME_MAX];
    vg_store *store = open_store(*state);

    for (int day = 0; day < 6; day++)
        put_seconds(store, "a", today - day * DAY_NS + S_NS, 2, 1);
    put_seconds(store, "a", T0 - 4000 * DAY_NS, 2, 1);
    vg_store_free(store);
    options.raw_days = 3;
    options.minute_days = 100;
    options.hour_days = 100;
    store = vg_store_new(&options, NULL);
    /* A recording of long ago stays while this process runs. */
    put_seconds(store, "replay:x", T0 - 3000 * DAY_NS, 2, 1);
    for (int day = 0; day < 6; day++) {
        vg_store_file_name(VG_STORE_WINDOWS, today / DAY_NS - day, name);
        /* The day that the limit is in is kept, whatever the time of day. */
        assert_int_equal(exists(*state, name), day <= 3);
    }
    vg_store_file_name(VG_STORE_WINDOWS, T0 / DAY_NS - 3000, name);
    assert_true(exists(*state, name));
    vg_store_file_name(VG_STORE_HOURS, vg_store_stamp(VG_STORE_HOURS, T0 - 4000 * DAY_NS), name);
    assert_false(exists(*state, name));
    assert_steps(store, 0, today - 5 * DAY_NS + S_NS, today - 5 * DAY_NS + 3 * S_NS, MIN_NS);
    vg_store_free(store);
    store = vg_store_new(&options, NULL);
    put_seconds(store, "a", today + S_NS, 2, 1);
    vg_store_file_name(VG_STORE_WINDOWS, T0 / DAY_NS - 3000, name);
    assert_false(exists(*state, name));
    vg_store_free(store);
}

static void
test_file_names(void **state)
{
    static const struct {
        enum vg_store_kind kind;
        const char *name;
        int64_t begin_ns;
    } cases[] = {
        {VG_STORE_WINDOWS, "ts-20261120.db", MIDNIGHT_NS},
        {VG_STORE_WINDOWS, "ts-20240229.db", INT64_C(19782) * DAY_NS},
        {VG_STORE_WINDOWS, "ts-19691231.db", -DAY_NS},
        {VG_STORE_MINUTES, "ts1m-202611.db", INT64_C(20758) * DAY_NS},
        {VG_STORE_MINUTES, "ts1m-196912.db", INT64_C(-31) * DAY_NS},
        {VG_STORE_HOURS, "ts1h-2026.db", INT64_C(20454) * DAY_NS},
        {VG_STORE_HOURS, "ts1h-2000.db", INT64_C(10957) * DAY_NS},
    };
    static const char *const wrong[] = {
        "ts-20261301.db",     "ts-20260230.db", "ts-2026112.db", "ts-+2026112.db",
        "ts1m-202613.db",     "ts1m-2026.db",   "ts1h-20266.db", "ts-20261120.db2",
        "ts-20261120.db-wal", "state.db",       "lock"};
    char name[VG_STORE_NAME_MAX];
    enum vg_store_kind kind;
    int64_t stamp;

    (void)state;
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        int64_t begin = cases[i].begin_ns;
        stamp = vg_store_stamp(cases[i].kind, begin);
        assert_string_equal(vg_store_file_name(cases[i].kind, stamp, name), cases[i].name);
        assert_int_equal(vg_store_stamp_begin_ns(cases[i].kind, stamp), begin);
        assert_int_equal(vg_store_stamp(cases[i].kind, begin - 1), stamp - 1);
        int64_t end = vg_store_stamp_begin_ns(cases[i].kind, stamp + 1);
        assert_int_equal(vg_store_stamp(cases[i].kind, end - 1), stamp);
        assert_true(vg_store_parse_name(cases[i].name, &kind, &stamp));
        assert_int_equal(kind, cases[i].kind);
        assert_int_equal(stamp, vg_store_stamp(kind, begin));
    }
    for (guint i = 0; i < G_N_ELEMENTS(wrong); i++)
        assert_false(vg_store_parse_name(wrong[i], &kind, &stamp));
    assert_int_equal(vg_store_period_end(MIN_NS, MIN_NS), MIN_NS);
    assert_int_equal(vg_store_period_end(MIN_NS + 1, MIN_NS), 2 * MIN_NS);
    assert_int_equal(vg_store_period_end(-1, MIN_NS), 0);
    assert_int_equal(vg_store_period_begin(-1, MIN_NS), -MIN_NS);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(test_round_trip),
        CASE(test_clock_offset),
        CASE(test_replace),
        CASE(test_days),
        CASE(test_two_processes_of_one_vm),
        CASE(test_lost_top),
        CASE(test_sums),
        CASE(test_sums_after_replay),
        CASE(test_sums_made_again),
        CASE(test_gaps),
        CASE(test_limits),
        CASE(test_not_found),
        CASE(test_newest_source),
        CASE(test_plans),
        CASE(test_two_stores),
        CASE(test_directory_appears),
        CASE(test_directory_vanishes),
        CASE(test_ring_is_full),
        CASE(test_corrupt),
        CASE(test_foreign_database),
        CASE(test_locked),
        CASE(test_newer_version),
        CASE(test_retention),
        CASE(test_file_names),
    };

    return cmocka_run_group_tests_name("store", tests, NULL, NULL);
}
