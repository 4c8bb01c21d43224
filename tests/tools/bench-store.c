/* SPDX-License-Identifier: Apache-2.0
 *
 * What the store costs: windows of one second put as fast as they can be written, queries over
 * them, and for comparison a bare loop of inserts into one table with the same columns.
 *     bench-store [--days D] [--vms N] [--directory DIR]
 * The directory is made and removed; it needs about 60 MB for an hour of 100 VMs.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <glib/gstdio.h>
#include <sqlite3.h>

#include "base/log.h"
#include "tests/unit/store-cases.h"

#define BACKLOG_MAX 64

/* Columns behind win and vm of the table `sample`. */
#define COLUMNS 26

static double
seconds(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double
rss_mib(void)
{
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");

    if (file && fscanf(file, "%ld %ld", &pages, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / (1024 * 1024);
}

/* CPU time of putting alone is measured apart: it is the caller's. */
static void
write_windows(vg_store *store, int64_t windows, guint vms)
{
    double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), begin = seconds(CLOCK_MONOTONIC);
    double mine = 0, rss_early = 0, rss_half = 0;
    struct vg_window window;
    struct vg_store_health health;

    for (int64_t i = 0; i < windows; i++) {
        double before = seconds(CLOCK_THREAD_CPUTIME_ID);
        int64_t end_ns = MIDNIGHT_NS + (i + 1) * S_NS;
        store_case_window(&window, end_ns - S_NS, end_ns, vms);
        mine += seconds(CLOCK_THREAD_CPUTIME_ID) - before;
        store_case_put_window(store, "bench", &window, 0);
        before = seconds(CLOCK_THREAD_CPUTIME_ID);
        vg_window_clear(&window);
        mine += seconds(CLOCK_THREAD_CPUTIME_ID) - before;
        while (vg_store_backlog(store) >= BACKLOG_MAX)
            g_usleep(500);
        if (i == windows / 10)
            rss_early = rss_mib();
        if (i == windows / 2)
            rss_half = rss_mib();
    }
    if (!vg_store_flush(store, 60 * S_NS))
        fprintf(stderr, "bench-store: not all is on disk\n");
    vg_store_read_health(store, &health);
    double rows = (double)windows * vms;
    double wall = seconds(CLOCK_MONOTONIC) - begin;
    cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu - mine;
    printf("write: %.0f rows in %.1f s = %.0f rows/s, %.2f us CPU a row, %.2f ms a window = %.2f "
           "%% of "
           "a core at 1/s\n",
           rows, wall, rows / wall, cpu / rows * 1e6, cpu / (double)windows * 1e3,
           cpu / (double)windows * 100);
    printf("memory: %.1f MiB at 10 %%, %.1f at 50 %%, %.1f at the end; dropped %" G_GUINT64_FORMAT
           "\n",
           rss_early, rss_half, rss_mib(), health.dropped);
}

static int64_t
directory_bytes(const char *directory)
{
    GDir *dir = g_dir_open(directory, 0, NULL);
    int64_t bytes = 0;
    GStatBuf status;

    for (const char *name = dir ? g_dir_read_name(dir) : NULL; name; name = g_dir_read_name(dir)) {
        g_autofree char *path = g_build_filename(directory, name, NULL);
        if (g_stat(path, &status) == 0)
            bytes += status.st_size;
    }
    if (dir)
        g_dir_close(dir);
    return bytes;
}

static void
query(vg_store *store, const char *what, int64_t since_ns, int64_t until_ns, int64_t step_ns)
{
    char key[VG_VM_NAME_MAX];
    struct vg_history_query q = {.vm = store_case_key(0, key),
                                 .since_ns = since_ns,
                                 .until_ns = until_ns,
                                 .step_ns = step_ns};
    double first = 0, best = 0;
    guint n = 0;

    for (int i = 0; i < 5; i++) {
        g_autoptr(GError) error = NULL;
        double begin = seconds(CLOCK_MONOTONIC);
        GArray *rows = vg_store_read_samples(store, &q, &error);
        double spent = (seconds(CLOCK_MONOTONIC) - begin) * 1e3;
        if (!rows) {
            fprintf(stderr, "bench-store: %s\n", error->message);
            return;
        }
        n = rows->len;
        g_array_unref(rows);
        first = i == 0 ? spent : first;
        best = i == 0 || spent < best ? spent : best;
    }
    printf("query %s: %u rows, first %.1f ms, best %.1f ms (goal 50)\n", what, n, first, best);
}

/* The yardstick: CPU seconds a row. */
static double
bare_loop(const char *directory, int64_t windows, guint vms)
{
    g_autofree char *path = g_build_filename(directory, "bare.db", NULL);
    g_autoptr(GString) text = g_string_new("CREATE TABLE s (win INTEGER, vm INTEGER");
    g_autoptr(GString) values = g_string_new("INSERT INTO s VALUES (?, ?");
    sqlite3 *db;
    sqlite3_stmt *insert;

    for (int i = 0; i < COLUMNS; i++) {
        g_string_append_printf(text, ", c%d INTEGER NOT NULL", i);
        g_string_append(values, ", ?");
    }
    g_string_append(text, ", PRIMARY KEY (win, vm)) STRICT, WITHOUT ROWID;");
    g_string_append(values, ")");
    if (sqlite3_open(path, &db) != SQLITE_OK ||
        sqlite3_exec(db, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;", NULL, NULL,
                     NULL) != SQLITE_OK ||
        sqlite3_exec(db, text->str, NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(db, values->str, -1, &insert, NULL) != SQLITE_OK) {
        fprintf(stderr, "bench-store: %s\n", sqlite3_errmsg(db));
        exit(1);
    }
    g_autofree int64_t *columns = g_new(int64_t, (gsize)vms * COLUMNS);
    double cpu = 0;
    for (int64_t i = 0; i < windows; i++) {
        int64_t end_ns = MIDNIGHT_NS + (i + 1) * S_NS;
        for (guint vm = 0; vm < vms; vm++) {
            struct vg_cpu_figures figures = store_case_figures(end_ns - S_NS, end_ns, vm);
            columns[vm * COLUMNS] = columns[vm * COLUMNS + 1] = 1;
            /* The figures are as many numbers as there are columns left. */
            memcpy(columns + vm * COLUMNS + 2, &figures, sizeof(int64_t) * (COLUMNS - 2));
        }
        double begin = seconds(CLOCK_THREAD_CPUTIME_ID);
        sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
        for (guint vm = 0; vm < vms; vm++) {
            sqlite3_bind_int64(insert, 1, i);
            sqlite3_bind_int64(insert, 2, vm);
            for (guint c = 0; c < COLUMNS; c++)
                sqlite3_bind_int64(insert, 3 + (int)c, columns[vm * COLUMNS + c]);
            sqlite3_step(insert);
            sqlite3_reset(insert);
        }
        sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
        cpu += seconds(CLOCK_THREAD_CPUTIME_ID) - begin;
    }
    sqlite3_finalize(insert);
    sqlite3_close(db);
    return cpu / ((double)windows * vms);
}
G_STATIC_ASSERT(sizeof(struct vg_cpu_figures) == (COLUMNS - 2) * sizeof(int64_t));

int
main(int argc, char **argv)
{
    double days = 0.1;
    int vms = 100;

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--days") == 0)
            days = g_ascii_strtod(argv[i + 1], NULL);
        else if (strcmp(argv[i], "--vms") == 0)
            vms = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--directory") == 0)
            g_setenv("TMPDIR", argv[i + 1], TRUE);
    }
    vg_log_set_level(VG_LOG_NOTICE);
    char *directory = store_case_directory();
    struct vg_store_options options = store_case_options(directory);
    int64_t windows = (int64_t)(days * 86400);
    vg_store *store = vg_store_new(&options, NULL);
    write_windows(store, windows, (guint)vms);
    vg_store_free(store);
    double rows = (double)windows * vms;
    printf("disk: %.1f bytes a row, with %d losses each and all sums\n",
           (double)directory_bytes(directory) / rows, STORE_CASE_LOSSES);

    store = vg_store_new(&options, NULL);
    int64_t end_ns = MIDNIGHT_NS + windows * S_NS;
    query(store, "since=-1h step=1s", end_ns - HOUR_NS, end_ns, S_NS);
    query(store, "since=-1h step=0", end_ns - HOUR_NS, end_ns, 0);
    query(store, "since=-7d step=1h", end_ns - 7 * DAY_NS, end_ns, HOUR_NS);
    vg_store_free(store);
    int64_t few = MIN(windows, 3600);
    double bare = bare_loop(directory, few, (guint)vms);
    printf("bare loop: %.2f us CPU a row\n", bare * 1e6);
    store_case_remove(directory);
    return 0;
}
