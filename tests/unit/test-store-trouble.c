/* SPDX-License-Identifier: Apache-2.0
 *
 * The store when the disk does not play along: nothing that can be kept is lost, the reason is
 * told, and writing resumes by itself. And which files there are for how long.
 */
#include "config.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>
#include <glib.h>
#include <glib/gstdio.h>
#include <sqlite3.h>

#include "base/error.h"
#include "store-checks.h"
#include "store/store-time.h"

#define T0 MIDNIGHT_NS

static void
run_sql(const char *path, const char *sql)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

/* Until nothing waits to be written. */
static void
wait_until_written(vg_store *store)
{
    int64_t until = vg_clock_monotonic_ns() + STORE_LONG_NS;

    while (!vg_store_flush(store, STORE_LONG_NS)) {
        assert_true(vg_clock_monotonic_ns() < until);
        g_usleep(1000);
    }
}

/* ---- trouble ---- */

static void
test_two_stores(void **state)
{
    struct vg_store_health health;
    vg_store *first = store_open(*state);

    store_wait_for_state(first, VG_STORE_OK, &health);
    vg_store *second = store_open(*state);
    store_wait_for_state(second, VG_STORE_FAILING, &health);
    assert_non_null(strstr(health.reason, "another vgpud"));
    store_case_put(second, "b", T0, T0 + S_NS, 1);
    assert_false(vg_store_flush(second, STORE_LONG_NS));
    assert_int_equal(vg_store_backlog(second), 0);
    store_put_seconds(first, "a", T0, 3, 1);
    vg_store_free(first);
    store_wait_for_state(second, VG_STORE_OK, &health);
    wait_until_written(second);
    vg_store_free(second);
    assert_int_equal(store_ask(*state, "ts-20261120.db", "SELECT count(*) FROM win"), 4);
}

/* A directory cannot be made where there is a file, or no parent; and comes later. */
static void
test_directory_appears(void **state)
{
    g_autofree char *parent = g_build_filename(*state, "parent", NULL);
    g_autofree char *directory = g_build_filename(parent, "store", NULL);
    struct vg_store_health health;

    assert_true(g_file_set_contents(parent, "", 0, NULL));
    vg_store *store = store_open(directory);
    store_wait_for_state(store, VG_STORE_FAILING, &health);
    assert_non_null(strstr(health.reason, directory));
    for (int i = 0; i < 5; i++)
        store_case_put(store, "a", T0 + i * S_NS, T0 + (i + 1) * S_NS, 1);
    /* What waits is read from memory. */
    store_assert_steps(store, 0, T0, T0 + 5 * S_NS, S_NS);
    vg_store_read_health(store, &health);
    assert_int_equal(health.pending, 5);
    assert_int_equal(g_remove(parent), 0);
    g_usleep(20000); /* a missing parent is not made */
    vg_store_read_health(store, &health);
    assert_int_equal(health.state, VG_STORE_FAILING);
    assert_int_equal(g_mkdir(parent, 0750), 0);
    wait_until_written(store);
    store_wait_for_state(store, VG_STORE_OK, &health);
    assert_int_equal(health.committed, 5);
    vg_store_free(store);
    store = store_open(directory);
    store_assert_steps(store, 0, T0, T0 + 5 * S_NS, S_NS);
    vg_store_free(store);
    store_case_remove(g_steal_pointer(&directory));
}

/* The whole directory is taken away while the store works: it begins anew, and knows it. */
static void
test_directory_vanishes(void **state)
{
    g_autofree char *directory = g_build_filename(*state, "store", NULL);
    struct vg_store_health health;

    vg_store *store = store_open(directory);
    store_put_seconds(store, "a", T0, 3, 1);
    store_case_remove(g_strdup(directory));
    store_put_seconds(store, "a", T0 + 3 * S_NS, 3, 1);
    store_wait_for_state(store, VG_STORE_OK, &health);
    vg_store_free(store);
    assert_int_equal(store_ask(directory, "ts-20261120.db", "SELECT count(*) FROM win"), 3);
    store_case_remove(g_steal_pointer(&directory));
}

/* As after a spoilt file was moved aside: what it had is not on disk any more. */
static void
test_file_is_taken_away(void **state)
{
    g_autofree char *path = g_build_filename(*state, "ts-20261120.db", NULL);

    vg_store *store = store_open(*state);
    store_put_seconds(store, "a", T0, 5, 1);
    assert_true(vg_store_flush(store, 10 * S_NS));
    assert_int_equal(unlink(path), 0);
    g_autoptr(GArray) rows = store_read_rows(store, 0, T0, T0 + MIN_NS, 0);
    assert_int_equal(rows->len, 5);
    vg_store_free(store);
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
    store_wait_for_state(store, VG_STORE_FAILING, &health);
    vg_store_read_health(store, &health);
    assert_int_equal(health.pending, 10);
    assert_int_equal(health.dropped, 15);
    g_autoptr(GArray) rows = store_read_rows(store, 0, T0, T0 + MIN_NS, 0);
    assert_int_equal(rows->len, 10);
    assert_int_equal(store_row_at(rows, 0)->end_ns, T0 + 16 * S_NS);
    vg_store_free(store);
}

static void
test_corrupt(void **state)
{
    static const char *const names[] = {"ts-20261120.db", "ts1m-202611.db", "ts1h-2026.db"};
    struct vg_store_health health;
    char junk[8192];

    memset(junk, 'x', sizeof(junk));
    for (guint i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *path = g_build_filename(*state, names[i], NULL);
        assert_true(g_file_set_contents(path, junk, sizeof(junk), NULL));
    }
    vg_store *store = store_open(*state);
    store_put_seconds(store, "a", T0, 70, 2);
    store_wait_for_state(store, VG_STORE_OK, &health);
    store_assert_steps(store, 1, T0, T0 + 70 * S_NS, MIN_NS);
    vg_store_free(store);
    for (guint i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *aside = g_strconcat(names[i], ".corrupt-1", NULL);
        g_autofree char *path = g_build_filename(*state, aside, NULL);
        g_autofree char *text = NULL;
        gsize size;
        assert_true(g_file_get_contents(path, &text, &size, NULL));
        assert_int_equal(size, sizeof(junk));
        assert_int_equal(store_ask(*state, names[i], "PRAGMA integrity_check"), 0);
    }
    assert_int_equal(store_ask(*state, "ts1h-2026.db", "SELECT sum(windows) FROM win"), 70);
}

static void
assert_null_is_told(vg_store *store, int day, const char *name)
{
    g_autoptr(GError) error = NULL;
    char key[VG_VM_NAME_MAX];
    struct vg_history_query query = {.vm = store_case_key(0, key),
                                     .since_ns = T0 + day * DAY_NS,
                                     .until_ns = T0 + day * DAY_NS + MIN_NS};

    assert_null(vg_store_read_samples(store, &query, &error));
    assert_true(g_error_matches(error, VG_ERROR, VG_E_IO));
    assert_non_null(strstr(error->message, name));
    assert_non_null(strstr(error->message, "is NULL"));
}

/* All minutes with windows are to be summed again. */
#define STALE                                                                                      \
 "; INSERT INTO stale SELECT DISTINCT source, ((end_ns - 1) / 60000000000 + 1) * 60000000000 "     \
 "FROM win"

/* Rows of the days, and the file that the answer says is missing; NULL: none. */
static void
assert_left_out(vg_store *store, int first_day, int end_day, guint n_rows, const char *file)
{
    g_autoptr(GPtrArray) left_out = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(GError) error = NULL;
    char key[VG_VM_NAME_MAX];
    struct vg_history_query query = {.vm = store_case_key(0, key),
                                     .since_ns = T0 + first_day * DAY_NS,
                                     .until_ns = T0 + (end_day - 1) * DAY_NS + MIN_NS,
                                     .left_out = left_out};
    g_autoptr(GArray) rows = vg_store_read_samples(store, &query, &error);

    if (!rows)
        fail_msg("%s", error->message);
    assert_int_equal(rows->len, n_rows);
    assert_int_equal(left_out->len, file ? 1 : 0);
    if (file && !strstr(left_out->pdata[0], file))
        fail_msg("%s does not name %s", (const char *)left_out->pdata[0], file);
}

/* A spoilt file among good ones is left out of the answer, all of it, and named. One that was moved
 * aside goes on being named. */
static void
test_left_out(void **state)
{
    g_autofree char *path = g_build_filename(*state, "ts-20261121.db", NULL);
    g_autofree char *aside = g_build_filename(*state, "ts-20261122.db.corrupt-2", NULL);

    vg_store *store = store_open(*state);
    for (int day = 0; day < 4; day++)
        store_put_seconds(store, "a", T0 + day * DAY_NS, 3, 2);
    vg_store_free(store);
    run_sql(path, "PRAGMA writable_schema = ON; "
                  "UPDATE sqlite_schema SET sql = replace(sql, 'NOT NULL', '')");
    /* The first row is read before its loss cannot be. */
    run_sql(path, "UPDATE aggressor SET name = NULL");
    assert_true(g_file_set_contents(aside, "x", 1, NULL));
    store = store_open(*state);
    assert_left_out(store, 0, 1, 3, NULL);
    assert_left_out(store, 0, 2, 3, "ts-20261121.db");
    assert_left_out(store, 2, 4, 6, "ts-20261122.db.corrupt-2");
    assert_left_out(store, 3, 4, 3, NULL);
    vg_store_free(store);
}

/* NULL where no name can be: of somebody who is asked about, or of what is summed after a start. */
static void
test_null_names(void **state)
{
    static const struct {
        const char *file, *sql;
    } cases[] = {
        {"ts-20261120.db", "UPDATE aggressor SET name = NULL"},
        {"ts-20261121.db", "UPDATE source SET name = NULL"},
        {"ts-20261122.db", "UPDATE vm SET key = NULL" STALE},
        {"ts-20261123.db", "UPDATE source SET name = NULL" STALE},
        {"ts-20261124.db", "UPDATE aggressor SET name = NULL" STALE},
    };
    vg_store *store = store_open(*state);

    for (int day = 0; day < 5; day++)
        store_put_seconds(store, "a", T0 + day * DAY_NS, 3, 2);
    vg_store_free(store);
    for (guint i = 0; i < G_N_ELEMENTS(cases); i++) {
        g_autofree char *path = g_build_filename(*state, cases[i].file, NULL);
        run_sql(path, "PRAGMA writable_schema = ON; "
                      "UPDATE sqlite_schema SET sql = replace(sql, 'NOT NULL', '')");
        run_sql(path, cases[i].sql);
    }
    store = store_open(*state);
    assert_null_is_told(store, 0, cases[0].file);
    assert_null_is_told(store, 1, cases[1].file);
    for (guint i = 2; i < 5; i++) {
        g_autofree char *aside = g_strconcat(cases[i].file, ".corrupt-1", NULL);
        for (int64_t left = STORE_LONG_NS; !store_has_file(*state, aside); left -= S_NS / 100) {
            assert_true(left > 0);
            g_usleep(10000);
        }
    }
    vg_store_free(store);
}

/* Somebody else's database of that name is not written into. */
static void
test_foreign_database(void **state)
{
    g_autofree char *path = g_build_filename(*state, "ts-20261120.db", NULL);

    run_sql(path, "CREATE TABLE precious (x); INSERT INTO precious VALUES (42)");
    vg_store *store = store_open(*state);
    store_put_seconds(store, "a", T0, 3, 1);
    vg_store_free(store);
    assert_int_equal(store_ask(*state, "ts-20261120.db.corrupt-1", "SELECT x FROM precious"), 42);
    assert_int_equal(store_ask(*state, "ts-20261120.db", "SELECT count(*) FROM win"), 3);
}

static void
test_locked(void **state)
{
    g_autofree char *path = g_build_filename(*state, "ts-20261120.db", NULL);
    struct vg_store_health health;
    sqlite3 *db;

    vg_store *store = store_open(*state);
    store_put_seconds(store, "a", T0, 3, 1);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    for (int i = 3; i < 8; i++)
        store_case_put(store, "a", T0 + i * S_NS, T0 + (i + 1) * S_NS, 1);
    /* One of the disk's again. */
    store_case_put(store, "a", T0 + S_NS, T0 + 2 * S_NS, 1);
    /* Another day is not held up. */
    store_case_put(store, "a", T0 + DAY_NS, T0 + DAY_NS + S_NS, 1);
    store_wait_for_state(store, VG_STORE_FAILING, &health);
    assert_non_null(strstr(health.reason, path));
    assert_non_null(strstr(health.reason, "locked"));
    assert_true(health.failures > 0);
    /* Disk and memory are one to whoever asks. */
    store_assert_steps(store, 0, T0, T0 + 8 * S_NS, S_NS);
    assert_int_equal(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    wait_until_written(store);
    store_wait_for_state(store, VG_STORE_OK, &health);
    assert_int_equal(health.committed, 10);
    assert_int_equal(health.dropped, 0);
    store_assert_steps(store, 0, T0, T0 + 8 * S_NS, S_NS);
    vg_store_free(store);
    assert_int_equal(store_ask(*state, "ts-20261120.db", "SELECT count(*) FROM win"), 8);
}

/* A version from the future is neither read nor written, and everything else goes on. */
static void
test_newer_version(void **state)
{
    g_autofree char *day = g_build_filename(*state, "ts-20261120.db", NULL);
    struct vg_store_health health;

    run_sql(day, "CREATE TABLE win (odd); PRAGMA user_version = 5");
    vg_store *store = store_open(*state);
    store_put_seconds(store, "a", T0 + DAY_NS, 3, 1);
    g_autoptr(GArray) rows = store_read_rows(store, 0, T0, T0 + 2 * DAY_NS, MIN_NS);
    assert_int_equal(rows->len, 1);
    assert_left_out(store, 0, 2, 3, day);
    assert_left_out(store, 1, 2, 3, NULL); /* not of that day */
    store_wait_for_state(store, VG_STORE_OK, &health);
    store_case_put(store, "a", T0, T0 + S_NS, 1);
    store_wait_for_state(store, VG_STORE_FAILING, &health);
    assert_non_null(strstr(health.reason, day));
    assert_non_null(
        strstr(health.reason, "it has version 5, and this program reads versions up to 4"));
    vg_store_free(store);
    assert_int_equal(store_ask(*state, "ts-20261120.db", "PRAGMA user_version"), 5);
}

/* ---- readers while it is written ---- */

struct reader {
    vg_store *store;
    int64_t until_ns;
    guint errors;
    guint reads;
};

/* All that was read is right, without holes, whatever is written and summed meanwhile. */
static void
read_on(vg_thread *self, void *arg)
{
    struct reader *reader = arg;

    while (!vg_thread_stopping(self)) {
        struct vg_history_query query = {.vm = "vm-1",
                                         .since_ns = T0,
                                         .until_ns = reader->until_ns,
                                         .step_ns = reader->reads % 2 ? MIN_NS : 0};
        GArray *rows = vg_store_read_samples(reader->store, &query, NULL);
        int64_t end_ns = T0;
        for (guint i = 0; rows && i < rows->len; i++) {
            const struct vg_history_row *row = &g_array_index(rows, struct vg_history_row, i);
            if (row->begin_ns != end_ns || row->windows != (row->end_ns - row->begin_ns) / S_NS)
                reader->errors++;
            end_ns = row->end_ns;
        }
        if (!rows)
            reader->errors++;
        else
            g_array_unref(rows);
        reader->reads++;
    }
}

static void
test_readers(void **state)
{
    vg_store *store = store_open(*state);
    struct reader readers[2] = {{.store = store, .until_ns = T0 + DAY_NS},
                                {.store = store, .until_ns = T0 + DAY_NS}};
    vg_thread *threads[2];

    store_put_seconds(store, "a", T0, 1, 2);
    for (guint i = 0; i < G_N_ELEMENTS(threads); i++)
        threads[i] = vg_thread_new("reader", read_on, NULL, &readers[i], NULL);
    for (int i = 1; i < 400; i++) {
        store_case_put(store, "a", T0 + i * S_NS, T0 + (i + 1) * S_NS, 2);
        if (i % 40 == 0)
            assert_true(vg_store_flush(store, STORE_LONG_NS));
    }
    assert_true(vg_store_flush(store, STORE_LONG_NS));
    for (guint i = 0; i < G_N_ELEMENTS(threads); i++) {
        vg_thread_free(threads[i]);
        assert_int_equal(readers[i].errors, 0);
        assert_true(readers[i].reads > 0);
    }
    vg_store_free(store);
}

/* ---- time ---- */

/* As if nothing had been written to the files for so long. */
static void
age_files(const char *directory, int64_t age_ns)
{
    int64_t then_ns = vg_clock_realtime_ns() - age_ns;
    struct timespec then = {.tv_sec = (time_t)(then_ns / S_NS)};
    const struct timespec times[] = {then, then};
    GDir *dir = g_dir_open(directory, 0, NULL);

    for (const char *name = g_dir_read_name(dir); name; name = g_dir_read_name(dir)) {
        g_autofree char *path = g_build_filename(directory, name, NULL);
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    }
    g_dir_close(dir);
}

static void
wait_until_gone(const char *directory, enum vg_store_kind kind, int64_t t_ns)
{
    int64_t until = vg_clock_monotonic_ns() + STORE_LONG_NS;
    char name[VG_STORE_NAME_MAX];

    vg_store_file_name(kind, vg_store_stamp(kind, t_ns), name);
    while (store_has_file(directory, name) && vg_clock_monotonic_ns() < until)
        g_usleep(1000);
    assert_false(store_has_file(directory, name));
}

static void
test_retention(void **state)
{
    int64_t today = vg_clock_realtime_ns() / DAY_NS * DAY_NS;
    struct vg_store_options options = store_case_options(*state);
    char name[VG_STORE_NAME_MAX];
    vg_store *store = store_open(*state);

    for (int day = 0; day < 6; day++)
        store_put_seconds(store, "a", today - day * DAY_NS + S_NS, 2, 1);
    store_put_seconds(store, "a", T0 - 4000 * DAY_NS, 2, 1);
    vg_store_free(store);
    age_files(*state, 5000 * DAY_NS);
    options.raw_days = 3;
    options.minute_days = 100;
    options.hour_days = 100;
    store = vg_store_new(&options, NULL);
    store_put_seconds(store, "replay:x", T0 - 3000 * DAY_NS, 2, 1);
    wait_until_gone(*state, VG_STORE_HOURS, T0 - 4000 * DAY_NS);
    for (int day = 0; day < 6; day++) {
        vg_store_file_name(VG_STORE_WINDOWS, today / DAY_NS - day, name);
        /* The day that the limit is in is kept, whatever the time of day. */
        assert_int_equal(store_has_file(*state, name), day <= 3);
    }
    store_assert_steps(store, 0, today - 5 * DAY_NS + S_NS, today - 5 * DAY_NS + 3 * S_NS, MIN_NS);
    struct vg_store_health health;
    const int64_t told_by_ns = vg_clock_monotonic_ns() + STORE_LONG_NS;
    /* It is told right after the file is gone. */
    do
        vg_store_read_health(store, &health);
    while (health.expired_ns[VG_STORED_HOURS] == 0 && vg_clock_monotonic_ns() < told_by_ns);
    assert_int_equal(health.expired_ns[VG_STORED_WINDOWS], today - 3 * DAY_NS);
    vg_store_free(store);
    /* A recording of long ago is kept for as long after it was replayed, whoever runs. */
    vg_store_file_name(VG_STORE_WINDOWS, T0 / DAY_NS - 3000, name);
    age_files(*state, 2 * DAY_NS);
    store_put_seconds(store = vg_store_new(&options, NULL), "a", today + S_NS, 2, 1);
    vg_store_free(store);
    assert_true(store_has_file(*state, name));
    age_files(*state, 4 * DAY_NS);
    store_put_seconds(store = vg_store_new(&options, NULL), "a", today + S_NS, 2, 1);
    wait_until_gone(*state, VG_STORE_WINDOWS, T0 - 3000 * DAY_NS);
    vg_store_free(store);
}

/* Only recordings of long ago: the days count from when they were written. */
static void
test_retention_of_recordings(void **state)
{
    struct vg_store_options options = store_case_options(*state);
    char name[VG_STORE_NAME_MAX];
    vg_store *store = store_open(*state);

    store_put_seconds(store, "a", T0 - 3000 * DAY_NS, 2, 1);
    vg_store_free(store);
    age_files(*state, 4 * DAY_NS);
    options.raw_days = 3;
    store_put_seconds(store = vg_store_new(&options, NULL), "b", T0 - 2000 * DAY_NS, 2, 1);
    vg_store_free(store);
    /* That run may have looked at the days before "b" came: the next one is sure to see both. */
    store = vg_store_new(&options, NULL);
    wait_until_gone(*state, VG_STORE_WINDOWS, T0 - 3000 * DAY_NS);
    vg_store_free(store);
    vg_store_file_name(VG_STORE_WINDOWS, T0 / DAY_NS - 2000, name);
    assert_true(store_has_file(*state, name));
}

/* The clock has leapt ahead, or the host was off for a year: days count from the newest. */
static void
test_retention_without_news(void **state)
{
    int64_t day0 = vg_clock_realtime_ns() / DAY_NS * DAY_NS - 400 * DAY_NS;
    struct vg_store_options options = store_case_options(*state);
    vg_store *store = store_open(*state);

    for (int day = 0; day < 10; day++)
        store_put_seconds(store, "a", day0 + day * DAY_NS + S_NS, 2, 1);
    vg_store_free(store);
    age_files(*state, 500 * DAY_NS);
    options.raw_days = 3;
    store = vg_store_new(&options, NULL);
    wait_until_gone(*state, VG_STORE_WINDOWS, day0 + 6 * DAY_NS);
    vg_store_free(store);
    for (int day = 0; day < 10; day++) {
        char name[VG_STORE_NAME_MAX];
        vg_store_file_name(VG_STORE_WINDOWS, day0 / DAY_NS + day, name);
        assert_int_equal(store_has_file(*state, name), day > 6);
    }
}

/* A file of sums that cannot be opened is told of, and the other months are summed. */
static void
test_month_that_cannot_be_read(void **state)
{
    g_autofree char *path = g_build_filename(*state, "ts1m-202610.db", NULL);
    struct vg_store_health health;

    assert_int_equal(g_mkdir(path, 0700), 0);
    vg_store *store = store_open(*state);
    store_put_seconds(store, "a", T0, 130, 1);
    store_wait_for_state(store, VG_STORE_FAILING, &health);
    assert_non_null(strstr(health.reason, path));
    vg_store_free(store);
    assert_int_equal(store_ask(*state, "ts1m-202611.db", "SELECT count(*) FROM win"), 3);
    assert_int_equal(store_ask(*state, "ts1h-2026.db", "SELECT sum(windows) FROM win"), 130);
    assert_true(store_has_file(*state, "ts1m-202610.db"));
}

static int64_t
count_minutes(const char *directory)
{
    return store_has_file(directory, "ts1m-202611.db")
               ? store_ask(directory, "ts1m-202611.db", "SELECT count(*) FROM win")
               : 0;
}

/* Minutes that fail do not hold up those behind them. */
static void
test_minutes_that_cannot_be_written(void **state)
{
    g_autofree char *path = g_build_filename(*state, "ts1m-202610.db", NULL);
    int64_t until = vg_clock_monotonic_ns() + STORE_LONG_NS;

    assert_int_equal(g_mkdir(path, 0700), 0);
    vg_store *store = store_open(*state);
    store_put_seconds(store, "a", T0 - 20 * DAY_NS, 190, 1);
    store_put_seconds(store, "a", T0, 130, 1);
    while (count_minutes(*state) < 2 && vg_clock_monotonic_ns() < until)
        g_usleep(1000);
    assert_int_equal(count_minutes(*state), 2);
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

#define CASE(test) cmocka_unit_test_setup_teardown(test, store_set_up, store_tear_down)

int
main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(test_two_stores),
        CASE(test_directory_appears),
        CASE(test_directory_vanishes),
        CASE(test_ring_is_full),
        CASE(test_corrupt),
        CASE(test_null_names),
        CASE(test_foreign_database),
        CASE(test_locked),
        CASE(test_left_out),
        CASE(test_newer_version),
        CASE(test_readers),
        CASE(test_retention),
        CASE(test_retention_of_recordings),
        CASE(test_retention_without_news),
        CASE(test_month_that_cannot_be_read),
        CASE(test_minutes_that_cannot_be_written),
        CASE(test_file_names),
        CASE(test_file_is_taken_away),
    };

    return cmocka_run_group_tests_name("store-trouble", tests, NULL, NULL);
}
