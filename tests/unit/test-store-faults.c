/* SPDX-License-Identifier: Apache-2.0
 *
 * A disk that fails at the n-th operation, for n = 1, 2, 3 ... until a whole scenario passes.
 * Whatever happens: every file is sound, every window that was called committed is there with its
 * figures; and after a single failure writing resumes by itself and nothing is missing. And
 * two connections to one file, where the other one comes before the n-th lock, likewise for all n.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <glib.h>
#include <sqlite3.h>

#include "base/error.h"
#include "base/log.h"
#include "fault-vfs.h"
#include "store-cases.h"
#include "store/store-file.h"
#include "tests/unit/chance.h"

#define WINDOWS     6
#define WINDOW_NS   (25 * S_NS) /* more than one minute, over midnight */
#define FIRST_NS    (MIDNIGHT_NS - 2 * WINDOW_NS)
#define VMS         3
#define PATIENCE_NS (100 * S_NS)

/* Runs of a mode when not all are wanted. */
#define RUNS 6

/* Ends of the windows that were called committed. */
static int64_t committed[4 * WINDOWS];
static guint n_committed;
static guint n_aside;

static void
sink(void *data, enum vg_log_level level, const char *tag, const char *message)
{
    static const char prefix[] = "window committed end_ns=";

    (void)data;
    (void)level;
    (void)tag;
    if (g_str_has_prefix(message, prefix) && n_committed < G_N_ELEMENTS(committed))
        committed[n_committed++] = g_ascii_strtoll(message + strlen(prefix), NULL, 10);
    if (strstr(message, "moved it aside"))
        n_aside++;
}

static int64_t
end_of(guint i)
{
    return FIRST_NS + (i + 1) * WINDOW_NS;
}

/* Puts the windows. all: waits until they are on disk. */
static void
run_scenario(const char *directory, bool all)
{
    struct vg_store_options options = store_case_options(directory);
    int64_t until = vg_clock_monotonic_ns() + PATIENCE_NS;
    struct vg_store_health health;

    options.vfs = FAULT_VFS_NAME;
    options.retry_ns = VG_NS_PER_MS;
    vg_store *store = vg_store_new(&options, NULL);
    for (guint i = 0; i < WINDOWS; i++) {
        store_case_put(store, "a", end_of(i) - WINDOW_NS, end_of(i), VMS);
        (void)vg_store_flush(store, S_NS);
    }
    do {
        vg_store_read_health(store, &health);
        if (health.state == VG_STORE_OK && health.pending == 0)
            break;
        g_usleep(500);
    } while (all && vg_clock_monotonic_ns() < until);
    if (all)
        assert_int_equal(health.pending, 0);
    vg_store_free(store);
}

static void
assert_sound(const char *directory)
{
    GDir *dir = g_dir_open(directory, 0, NULL);

    for (const char *name = g_dir_read_name(dir); name; name = g_dir_read_name(dir)) {
        g_autofree char *path = g_build_filename(directory, name, NULL);
        sqlite3_stmt *statement;
        sqlite3 *db;
        assert_null(strstr(name, ".corrupt-"));
        if (!g_str_has_suffix(name, ".db"))
            continue;
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &statement, NULL),
                         SQLITE_OK);
        assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
        assert_string_equal((const char *)sqlite3_column_text(statement, 0), "ok");
        sqlite3_finalize(statement);
        sqlite3_close(db);
    }
    g_dir_close(dir);
}

/* Has the store the window with this end, right in every figure? */
static bool
has_window(const GArray *rows, guint vm, int64_t end_ns)
{
    struct vg_cpu_figures cpu = store_case_figures(end_ns - WINDOW_NS, end_ns, vm);

    for (guint i = 0; i < rows->len; i++) {
        const struct vg_history_row *row = &g_array_index(rows, struct vg_history_row, i);
        if (row->end_ns == end_ns)
            return memcmp(&row->cpu, &cpu, sizeof(cpu)) == 0 &&
                   row->begin_ns == end_ns - WINDOW_NS && row->lost_to->len == STORE_CASE_LOSSES;
    }
    return false;
}

static GArray *
read_rows(vg_store *store, guint vm, int64_t step_ns)
{
    char key[VG_VM_NAME_MAX];
    struct vg_history_query query = {
        .vm = store_case_key(vm, key), .since_ns = 0, .until_ns = INT64_MAX, .step_ns = step_ns};
    GArray *rows = vg_store_read_samples(store, &query, NULL);

    return rows ? rows : vg_history_rows_new();
}

/* The sums by the hour are those of the windows, whichever of them there are. */
static void
assert_sums(vg_store *store, guint vm)
{
    g_autoptr(GArray) windows = read_rows(store, vm, 0);
    g_autoptr(GArray) hours = read_rows(store, vm, HOUR_NS);
    struct vg_cpu_figures sum = {0}, by_hour = {0};

    for (guint i = 0; i < windows->len; i++)
        vg_cpu_figures_add(&sum, &g_array_index(windows, struct vg_history_row, i).cpu);
    for (guint i = 0; i < hours->len; i++)
        vg_cpu_figures_add(&by_hour, &g_array_index(hours, struct vg_history_row, i).cpu);
    assert_memory_equal(&sum, &by_hour, sizeof(sum));
}

static void
check(const char *directory, bool all)
{
    struct vg_store_options options = store_case_options(directory);

    assert_sound(directory);
    options.log_commits = false;
    vg_store *store = vg_store_new(&options, NULL);
    for (guint vm = 0; vm < VMS; vm++) {
        g_autoptr(GArray) rows = read_rows(store, vm, 0);
        for (guint i = 0; i < n_committed; i++)
            assert_true(has_window(rows, vm, committed[i]));
        for (guint i = 0; i < WINDOWS && all; i++)
            assert_true(has_window(rows, vm, end_of(i)));
        assert_sums(store, vm);
    }
    vg_store_free(store);
}

/* false: the scenario has fewer operations than that. */
static bool
run(long n, enum fault_mode mode, bool on)
{
    char *directory = store_case_directory();

    n_committed = n_aside = 0;
    fault_vfs_arm(n, mode, on);
    run_scenario(directory, !on);
    bool hit = fault_vfs_count() >= n;
    fault_vfs_arm(0, mode, false);
    if (!on)
        assert_true(n_committed >= WINDOWS);
    check(directory, !on);
    assert_int_equal(n_aside, 0);
    store_case_remove(directory);
    return hit;
}

static void
run_all(enum fault_mode mode, bool on)
{
    assert_false(run(LONG_MAX, mode, on));
    char *directory = store_case_directory();
    fault_vfs_arm(0, mode, false);
    run_scenario(directory, true);
    long operations = fault_vfs_count();
    store_case_remove(directory);
    long stride = chance_is_full() ? 1 : MAX(operations / RUNS, 1);
    for (long n = 1 + (long)(chance_seed() % (uint64_t)stride);
         run(n, mode, on) && n < 4 * operations; n += stride)
        continue;
}

static void
test_ioerr_once(void **state)
{
    (void)state;
    run_all(FAULT_IOERR, false);
}

static void
test_ioerr_on(void **state)
{
    (void)state;
    run_all(FAULT_IOERR, true);
}

static void
test_full_once(void **state)
{
    (void)state;
    run_all(FAULT_FULL, false);
}

static void
test_full_on(void **state)
{
    (void)state;
    run_all(FAULT_FULL, true);
}

static void
test_short_once(void **state)
{
    (void)state;
    run_all(FAULT_SHORT, false);
}

static void
test_short_on(void **state)
{
    (void)state;
    run_all(FAULT_SHORT, true);
}

/* ---- two at once ---- */

struct maker {
    const char *directory;
    bool called;
};

static void
make_tables(void *data)
{
    struct maker *maker = data;
    g_autoptr(GError) error = NULL;

    /* The reader may hold the file just then: a writer would try again. */
    struct vg_store_file *file =
        vg_store_file_open(maker->directory, NULL, VG_STORE_WINDOWS, 0, VG_STORE_CREATE, &error);
    if (!file)
        assert_int_equal(error->code, VG_E_BUSY);
    vg_store_file_close(file);
    maker->called = true;
}

/* A reader opens a file while the writer makes it: it has no tables yet, or all, and is ours. */
static void
test_opened_while_made(void **state)
{
    char name[VG_STORE_NAME_MAX];
    struct maker maker = {.called = true};
    long made = 0;

    (void)state;
    vg_store_file_name(VG_STORE_WINDOWS, 0, name);
    for (long n = 1; maker.called; n++) {
        char *directory = store_case_directory();
        g_autofree char *path = g_build_filename(directory, name, NULL);
        g_autoptr(GError) error = NULL;
        assert_true(g_file_set_contents(path, "", 0, NULL));
        maker = (struct maker){.directory = directory};
        fault_vfs_call_at_lock(n, make_tables, &maker);
        struct vg_store_file *file = vg_store_file_open(directory, FAULT_VFS_NAME, VG_STORE_WINDOWS,
                                                        0, VG_STORE_READ, &error);
        if (!file)
            assert_int_equal(error->code, VG_E_NOT_FOUND);
        made += file != NULL;
        vg_store_file_close(file);
        store_case_remove(directory);
    }
    fault_vfs_call_at_lock(0, NULL, NULL);
    assert_true(made > 0);
}

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ioerr_once),        cmocka_unit_test(test_ioerr_on),
        cmocka_unit_test(test_full_once),         cmocka_unit_test(test_full_on),
        cmocka_unit_test(test_short_once),        cmocka_unit_test(test_short_on),
        cmocka_unit_test(test_opened_while_made),
    };

    store_case_use_memory();
    vg_log_set_sink(sink, NULL);
    fault_vfs_register();
    return cmocka_run_group_tests_name("store-faults", tests, NULL, NULL);
}
