/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "store-checks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "base/log.h"
#include "store/store-time.h"

vg_store *
store_open(const char *directory)
{
    struct vg_store_options options = store_case_options(directory);
    vg_store *store = vg_store_new(&options, NULL);

    assert_non_null(store);
    return store;
}

/* One second windows first < t <= first + n, all on disk. */
void
store_put_seconds(vg_store *store, const char *source, int64_t first_ns, int n, guint vms)
{
    for (int i = 0; i < n; i++)
        store_case_put(store, source, first_ns + i * S_NS, first_ns + (i + 1) * S_NS, vms);
    assert_true(vg_store_flush(store, STORE_LONG_NS));
}

GArray *
store_read_rows(vg_store *store, guint vm, int64_t since_ns, int64_t until_ns, int64_t step_ns)
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

const struct vg_history_row *
store_row_at(const GArray *rows, guint i)
{
    assert_true(i < rows->len);
    return &g_array_index(rows, struct vg_history_row, i);
}

int64_t
store_lost_to(const struct vg_history_row *row, const char *aggressor)
{
    for (guint i = 0; i < row->lost_to->len; i++) {
        const struct vg_history_loss *loss =
            &g_array_index(row->lost_to, struct vg_history_loss, i);
        if (strcmp(loss->aggressor, aggressor) == 0)
            return loss->ns;
    }
    return -1;
}

int64_t
store_lost_to_all(const struct vg_history_row *row, uint64_t *ret_count)
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
void
store_assert_sums(const struct vg_history_row *row, guint vm, int64_t first_ns, int64_t last_ns)
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
    assert_int_equal(store_lost_to(row, "self"), self);
    assert_int_equal(store_lost_to_all(row, &count), lost);
    assert_int_equal(count, windows * (1 + 2 + 3 + 4));
    assert_true(row->guest_known);
    assert_int_equal(row->gpu_known, vm == 0);
    assert_int_equal(row->gpu_active_ns, vm == 0 ? windows * S_NS / 4 : 0);
}

/* The same, for rows of `step` seconds each from first on. */
void
store_assert_steps(vg_store *store, guint vm, int64_t first_ns, int64_t last_ns, int64_t step_ns)
{
    g_autoptr(GArray) rows = store_read_rows(store, vm, first_ns, last_ns, step_ns);
    guint n = 0;

    for (int64_t begin = first_ns; begin < last_ns;) {
        int64_t end = MIN(vg_store_period_end(begin + 1, step_ns), last_ns);
        store_assert_sums(store_row_at(rows, n++), vm, begin, end);
        begin = end;
    }
    assert_int_equal(rows->len, n);
}

bool
store_has_file(const char *directory, const char *name)
{
    g_autofree char *path = g_build_filename(directory, name, NULL);

    return g_file_test(path, G_FILE_TEST_EXISTS);
}

/* One number out of a file, past the store; INT64_MIN if there is none. */
int64_t
store_ask(const char *directory, const char *name, const char *sql)
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

/* Until the state is that, or time is over. */
void
store_wait_for_state(vg_store *store, enum vg_store_state state, struct vg_store_health *ret)
{
    int64_t until = vg_clock_monotonic_ns() + STORE_LONG_NS;

    do {
        vg_store_read_health(store, ret);
        if (ret->state == state)
            return;
        g_usleep(1000);
    } while (vg_clock_monotonic_ns() < until);
    fail_msg("state is %s (%s), not %s", vg_store_state_names[ret->state], ret->reason,
             vg_store_state_names[state]);
}

int
store_set_up(void **state)
{
    store_case_use_memory();
    *state = store_case_directory();
    vg_log_set_level(VG_LOG_ERR - 1);
    return 0;
}

int
store_tear_down(void **state)
{
    store_case_remove(*state);
    return 0;
}
