/* SPDX-License-Identifier: Apache-2.0
 *
 * Steps of the whole host: what it did, and who measured it, out of windows, minutes and hours; and
 * files of version 1, which know neither.
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
#include <sqlite3.h>

#include "base/error.h"
#include "schema/schema.h"
#include "store-checks.h"
#include "store/store-time.h"

#define T0 MIDNIGHT_NS

static GArray *
read_steps(vg_store *store, int64_t since_ns, int64_t until_ns, int64_t step_ns)
{
    const struct vg_history_query query = {
        .since_ns = since_ns, .until_ns = until_ns, .step_ns = step_ns};
    g_autoptr(GError) error = NULL;
    GArray *steps = vg_store_read_steps(store, &query, &error);

    if (!steps)
        fail_msg("%s", error->message);
    return steps;
}

static const struct vg_history_step *
step_at(const GArray *steps, guint i)
{
    assert_true(i < steps->len);
    return &g_array_index(steps, struct vg_history_step, i);
}

/* What windows of one second tell of the host, added up. */
static struct vg_host_figures
add_up(int64_t first_ns, int64_t last_ns)
{
    struct vg_host_figures sum = {0};

    for (int64_t end = first_ns + S_NS; end <= last_ns; end += S_NS) {
        const struct vg_host_sample host = store_case_host(end - S_NS, end);
        /* VM 0 has no GPU request that waits; and without VMs there is none, either. */
        sum.gpu_of_ns += S_NS;
        sum.own_of_ns += host.own_ns >= 0 ? S_NS : 0;
        sum.own_ns += MAX(host.own_ns, 0);
        sum.idle_of_ns += host.idle_ns >= 0 ? S_NS : 0;
        sum.idle_ns += MAX(host.idle_ns, 0);
        sum.steal_ns += MAX(host.steal_ns, 0);
        sum.load_of_ns += host.load[0] >= 0 ? S_NS : 0;
        /* Hundredths of a thread for a million microseconds. */
        sum.load_us += (int64_t)(MAX(host.load[0], 0) * 100 + 0.5) * 10000;
        if (host.pressure[0].some_ns < 0)
            continue;
        sum.pressure_of_ns += S_NS;
        sum.cpu_some_ns += host.pressure[VG_RESOURCE_CPU].some_ns;
        sum.memory_some_ns += host.pressure[VG_RESOURCE_MEMORY].some_ns;
        sum.memory_full_ns += host.pressure[VG_RESOURCE_MEMORY].full_ns;
        sum.io_some_ns += host.pressure[VG_RESOURCE_IO].some_ns;
        sum.io_full_ns += host.pressure[VG_RESOURCE_IO].full_ns;
    }
    return sum;
}

static const struct vg_history_measured *
find_measured(const struct vg_history_step *step, const char *by)
{
    static const struct vg_history_measured none;

    for (guint i = 0; i < step->measured->len; i++) {
        const struct vg_history_measured *measured =
            &g_array_index(step->measured, struct vg_history_measured, i);
        if (strcmp(measured->by, by) == 0)
            return measured;
    }
    return &none;
}

static void
assert_step(const struct vg_history_step *step, int64_t first_ns, int64_t last_ns, guint vms)
{
    const struct vg_host_figures host = add_up(first_ns, last_ns);
    const int64_t windows = (last_ns - first_ns) / S_NS;
    struct vg_cpu_figures cpu = {0};
    int64_t bpf = 0;

    for (int64_t end = first_ns + S_NS; end <= last_ns; end += S_NS) {
        for (guint vm = 0; vm < vms; vm++) {
            const struct vg_cpu_figures figures = store_case_figures(end - S_NS, end, vm);
            vg_cpu_figures_add(&cpu, &figures);
        }
        bpf += store_case_is_bpf(end) ? 1 : 0;
    }
    assert_int_equal(step->begin_ns, first_ns);
    assert_int_equal(step->end_ns, last_ns);
    assert_int_equal(step->windows, windows);
    assert_int_equal(step->length_ns, windows * S_NS);
    assert_int_equal(step->vm_windows, windows * vms);
    assert_int_equal(step->lost_events, 3 * windows);
    assert_int_equal(step->run_ns, cpu.run_ns);
    assert_int_equal(step->preempt_ns, cpu.preempt_ns);
    assert_int_equal(step->wake_wait_ns, cpu.wake_wait_ns);
    assert_int_equal(step->preemptions, cpu.preemptions);
    assert_memory_equal(&step->host, &host, sizeof(host));
    assert_int_equal(find_measured(step, "bpf")->ns, bpf * S_NS);
    assert_int_equal(find_measured(step, "bpf")->who_ns, bpf * S_NS);
    assert_int_equal(find_measured(step, "procfs")->ns, (windows - bpf) * S_NS);
    assert_int_equal(find_measured(step, "procfs")->who_ns, 0);
}

static void
assert_steps(vg_store *store, int64_t first_ns, int64_t last_ns, int64_t step_ns, guint vms)
{
    g_autoptr(GArray) steps = read_steps(store, first_ns, last_ns, step_ns);
    guint n = 0;

    for (int64_t begin = first_ns; begin < last_ns;) {
        int64_t end = MIN(vg_store_period_end(begin + 1, step_ns), last_ns);
        assert_step(step_at(steps, n++), begin, end, vms);
        begin = end;
    }
    assert_int_equal(steps->len, n);
}

/* Of what waits in memory, of windows, minutes and hours, and of these alone. */
static void
test_steps(void **state)
{
    static const int64_t lengths[] = {10 * S_NS, MIN_NS, 90 * S_NS, 10 * MIN_NS, HOUR_NS};
    int64_t first = T0 + 10 * HOUR_NS - 130 * S_NS;
    int64_t last = T0 + 11 * HOUR_NS + 75 * S_NS;
    vg_store *store = store_open(*state);

    for (int64_t t = first; t < last; t += 300 * S_NS)
        store_put_seconds(store, "a", t, (int)(MIN(300 * S_NS, last - t) / S_NS), 2);
    for (int round = 0; round < 2; round++) {
        for (guint i = 0; i < G_N_ELEMENTS(lengths); i++)
            assert_steps(store, first, last, lengths[i], 2);
        vg_store_free(store);
        store = store_open(*state);
    }
    vg_store_free(store);
    g_autofree char *day = g_build_filename(*state, "ts-20261120.db", NULL);
    assert_int_equal(g_remove(day), 0);
    store = store_open(*state);
    assert_steps(store, first, last, MIN_NS, 2);
    assert_steps(store, first, last, HOUR_NS, 2);
    vg_store_free(store);
}

/* Steps in which nothing ends are not there; those of which a part is asked for are whole; a window
 * without VMs is one. */
static void
test_gaps(void **state)
{
    vg_store *store = store_open(*state);

    store_put_seconds(store, "a", T0, 60, 1);
    store_put_seconds(store, "a", T0 + 3 * MIN_NS, 60, 0);
    g_autoptr(GArray) steps =
        read_steps(store, T0 + 30 * S_NS, T0 + 3 * MIN_NS + 10 * S_NS, MIN_NS);
    assert_int_equal(steps->len, 2);
    assert_step(step_at(steps, 0), T0, T0 + MIN_NS, 1);
    assert_step(step_at(steps, 1), T0 + 3 * MIN_NS, T0 + 4 * MIN_NS, 0);
    g_autoptr(GArray) none = read_steps(store, T0 + HOUR_NS, T0 + 2 * HOUR_NS, MIN_NS);
    assert_int_equal(none->len, 0);
    vg_store_free(store);
}

/* Before anything is on disk. */
static void
test_in_memory(void **state)
{
    struct vg_store_options options = store_case_options(*state);
    vg_store *store = vg_store_new(&options, NULL);

    options.directory = "/dev/null/nowhere";
    vg_store *lost = vg_store_new(&options, NULL);
    for (int i = 0; i < 90; i++)
        store_case_put(lost, "a", T0 + i * S_NS, T0 + (i + 1) * S_NS, 2);
    assert_steps(lost, T0, T0 + 90 * S_NS, MIN_NS, 2);
    vg_store_free(lost);
    vg_store_free(store);
}

static void
test_queries(void **state)
{
    static const int64_t wrong[] = {0, -S_NS, S_NS - 1, VG_HISTORY_STEP_MAX_NS + 1};
    vg_store *store = store_open(*state);

    for (guint i = 0; i < G_N_ELEMENTS(wrong); i++) {
        const struct vg_history_query query = {
            .since_ns = T0, .until_ns = T0 + DAY_NS, .step_ns = wrong[i]};
        g_autoptr(GError) error = NULL;
        assert_null(vg_store_read_steps(store, &query, &error));
        assert_true(g_error_matches(error, VG_ERROR, VG_E_INVALID));
    }
    vg_store_free(store);
}

/* ---- GPUs ---- */

/* Puts a second with two VMs. The first one has requests of two engines. */
static void
put_gpus(vg_store *store, int64_t begin_ns, unsigned int lacks)
{
    struct vg_window window;
    struct vg_gpu_sample gpu = {.device = "card0", .engine = "rcs0", .wait_ns = 300000000};

    store_case_window(&window, begin_ns, begin_ns + S_NS, 2);
    GArray *gpus = g_array_index(window.vms, struct vg_vm_sample, 0).gpus;
    g_array_append_val(gpus, gpu);
    gpu.engine[0] = 'v';
    gpu.lacks = lacks;
    g_array_append_val(gpus, gpu);
    store_case_put_window(store, "a", &window, 0);
    vg_window_clear(&window);
}

static void
test_gpus(void **state)
{
    vg_store *store = store_open(*state);

    put_gpus(store, T0, 0);
    put_gpus(store, T0 + S_NS, VG_GPU_NO_DETAILS);
    put_gpus(store, T0 + 2 * S_NS, VG_GPU_NO_REQUESTS);
    assert_true(vg_store_flush(store, STORE_LONG_NS));
    for (int round = 0; round < 2; round++) {
        g_autoptr(GArray) steps = read_steps(store, T0, T0 + 10 * S_NS, 10 * S_NS);
        assert_int_equal(step_at(steps, 0)->length_ns, 3 * S_NS);
        assert_int_equal(step_at(steps, 0)->host.gpu_of_ns, 2 * S_NS);
        assert_int_equal(step_at(steps, 0)->host.gpu_wait_ns, 1200000000);
        vg_store_free(store);
        store = store_open(*state);
    }
    vg_store_free(store);
}

/* ---- version 1 ---- */

static void
run_sql(const char *path, const char *sql)
{
    char *message = NULL;
    sqlite3 *db;

    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL),
                     SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s: %s", path, message);
    sqlite3_close(db);
}

/* A file of version 1 with one row of this time, in which one VM ran for 7 ms. */
static void
make_version_1(const char *directory, const char *name, int64_t begin_ns, int64_t end_ns,
               int windows)
{
    g_autofree char *path = g_build_filename(directory, name, NULL);
    g_autofree char *rows = g_strdup_printf(
        "INSERT INTO source VALUES (1, 'a'); INSERT INTO vm VALUES (1, 'vm-1', 'vm-1');"
        "INSERT INTO win VALUES (1, 1, %" G_GINT64_FORMAT ", %" G_GINT64_FORMAT ", %d, 0);"
        "INSERT INTO sample VALUES (1, 1, %d, 1, 9000000, 7000000"
        ", 0, 1000000, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);"
        "PRAGMA user_version = 1",
        begin_ns, end_ns, windows, windows);

    run_sql(path, vg_schema_ts_001);
    run_sql(path, rows);
}

static void
test_version_1(void **state)
{
    const char *directory = *state;
    const int64_t yesterday = T0 - HOUR_NS;

    make_version_1(directory, "ts-20261119.db", yesterday, yesterday + S_NS, 1);
    make_version_1(directory, "ts-20261120.db", T0, T0 + S_NS, 1);
    make_version_1(directory, "ts1m-202611.db", yesterday, yesterday + S_NS, 1);
    vg_store *store = store_open(directory);
    g_autoptr(GArray) before = read_steps(store, yesterday, T0 + MIN_NS, MIN_NS);
    assert_int_equal(before->len, 2);
    for (guint i = 0; i < 2; i++) {
        const struct vg_history_step *step = step_at(before, i);
        static const struct vg_host_figures none;
        assert_int_equal(step->windows, 1);
        assert_int_equal(step->vm_windows, 1);
        assert_int_equal(step->run_ns, 7000000);
        assert_int_equal(step->preempt_ns, 1000000);
        assert_int_equal(step->preemptions, 5);
        assert_int_equal(step->measured->len, 0);
        assert_memory_equal(&step->host, &none, sizeof(none));
    }
    /* What is added to has the new tables, in one file with what was there; what is not, stays. */
    store_put_seconds(store, "a", T0 + S_NS, 119, 2);
    g_autoptr(GArray) after = read_steps(store, T0, T0 + 2 * MIN_NS, MIN_NS);
    assert_int_equal(after->len, 2);
    assert_int_equal(step_at(after, 0)->windows, 60);
    assert_int_equal(step_at(after, 0)->vm_windows, 1 + 59 * 2);
    const struct vg_host_figures first = add_up(T0 + S_NS, T0 + MIN_NS);
    assert_memory_equal(&step_at(after, 0)->host, &first, sizeof(first));
    assert_step(step_at(after, 1), T0 + MIN_NS, T0 + 2 * MIN_NS, 2);
    vg_store_free(store);
    assert_int_equal(store_ask(directory, "ts-20261119.db", "PRAGMA user_version"), 1);
    assert_int_equal(store_ask(directory, "ts-20261120.db", "PRAGMA user_version"), 4);
    assert_int_equal(store_ask(directory, "ts1m-202611.db", "PRAGMA user_version"), 4);
    assert_int_equal(store_ask(directory, "ts1m-202611.db", "SELECT count(*) FROM host"), 2);
    /* The window of yesterday is replaced where it lies. */
    store = store_open(directory);
    store_case_put(store, "a", yesterday, yesterday + 2 * S_NS, 1);
    assert_true(vg_store_flush(store, STORE_LONG_NS));
    g_autoptr(GArray) replaced = read_steps(store, yesterday, yesterday + MIN_NS, MIN_NS);
    assert_int_equal(replaced->len, 1);
    assert_int_equal(step_at(replaced, 0)->length_ns, 2 * S_NS);
    assert_int_equal(step_at(replaced, 0)->windows, 1);
    vg_store_free(store);
    assert_int_equal(store_ask(directory, "ts-20261119.db", "PRAGMA user_version"), 4);
}

/* A row of a file of version 3, in which own_ns is 5 ms of a second. */
static void
test_version_3(void **state)
{
    const char *directory = *state;
    g_autofree char *path = g_build_filename(directory, "ts-20261120.db", NULL);

    make_version_1(directory, "ts-20261120.db", T0, T0 + S_NS, 1);
    run_sql(path, vg_schema_ts_002);
    run_sql(path, vg_schema_ts_003);
    run_sql(path,
            "INSERT INTO host VALUES (1, 1000000000, 5000000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);"
            "PRAGMA user_version = 3");
    vg_store *store = store_open(directory);
    for (int round = 0; round < 2; round++) {
        g_autoptr(GArray) steps = read_steps(store, T0, T0 + S_NS, MIN_NS);
        const int64_t own_ns = round == 0 ? 0 : add_up(T0 + S_NS, T0 + MIN_NS).own_ns;
        assert_int_equal(step_at(steps, 0)->host.own_ns, own_ns + 5000000);
        assert_int_equal(step_at(steps, 0)->host.gpu_of_ns, round == 0 ? 0 : 59 * S_NS);
        store_put_seconds(store, "a", T0 + S_NS, 59, 2);
    }
    vg_store_free(store);
    assert_int_equal(store_ask(directory, "ts-20261120.db", "PRAGMA user_version"), 4);
}

int
main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, store_set_up, store_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(test_steps),     CASE(test_gaps), CASE(test_in_memory), CASE(test_queries),
        CASE(test_version_1), CASE(test_gpus), CASE(test_version_3),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
