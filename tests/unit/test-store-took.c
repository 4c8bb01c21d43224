/* SPDX-License-Identifier: Apache-2.0
 *
 * Who took CPU time: the top of a minute, not of its seconds, and the processes behind host:user.
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

#include "store-checks.h"

#define T0 MIDNIGHT_NS

static vg_store *
open_with(const char *directory, int64_t lost_top)
{
    struct vg_store_options options = store_case_options(directory);

    options.lost_top = lost_top;
    vg_store *store = vg_store_new(&options, NULL);
    assert_non_null(store);
    return store;
}

static void
add_process(struct vg_window *window, guint vm, const char *comm, const char *cgroup, int64_t ns)
{
    struct vg_lost_process process = {.pid = 7, .ns = ns, .count = 1};

    g_strlcpy(process.comm, comm, sizeof(process.comm));
    g_strlcpy(process.cgroup, cgroup, sizeof(process.cgroup));
    g_array_append_val(g_array_index(window->vms, struct vg_vm_sample, vm).lost_processes, process);
}

/* In the second before end: 5 ns of backup in one service and 4 in another, of each of two VMs; of
 * the first also 3 of cron, 2 of one whose name is no text, 1 of each of six small ones, and much
 * of one without a name. */
static void
put_second(vg_store *store, int64_t end_ns)
{
    struct vg_window window;
    char comm[VG_COMM_LEN];

    store_case_window(&window, end_ns - S_NS, end_ns, 2);
    for (guint vm = 0; vm < 2; vm++) {
        add_process(&window, vm, "backup", "/system.slice/a", 5);
        add_process(&window, vm, "backup", "/system.slice/b", 4);
    }
    add_process(&window, 0, "cron", "", 3);
    add_process(&window, 0, "\xff", "/", 2);
    for (int i = 0; i < 6; i++) {
        g_snprintf(comm, sizeof(comm), "small%d", i);
        add_process(&window, 0, comm, "", 1);
    }
    add_process(&window, 0, "", "", 1000);
    store_case_put_window(store, "a", &window, 0);
    vg_window_clear(&window);
}

/* All seconds are on disk, and the minutes that are over are summed. */
static void
put_seconds(vg_store *store, const char *directory, int from, int to)
{
    g_autofree char *sql =
        g_strdup_printf("SELECT count(*) FROM stale WHERE end_ns <= %" G_GINT64_FORMAT,
                        T0 + (to - 1) / 60 * MIN_NS);
    const int64_t until = vg_clock_monotonic_ns() + STORE_LONG_NS;

    for (int i = from; i < to; i++)
        put_second(store, T0 + (i + 1) * S_NS);
    assert_true(vg_store_flush(store, STORE_LONG_NS));
    while (store_ask(directory, "ts-20261120.db", sql) != 0) {
        assert_true(vg_clock_monotonic_ns() < until);
        g_usleep(1000);
    }
}

static vg_history_host *
read_host(vg_store *store, int64_t since_ns, int64_t until_ns)
{
    const struct vg_history_query query = {.since_ns = since_ns, .until_ns = until_ns};
    g_autoptr(GError) error = NULL;
    vg_history_host *host = vg_store_read_host(store, &query, &error);

    if (!host)
        fail_msg("%s", error->message);
    return host;
}

static int64_t
took(const GArray *processes, const char *comm, const char *cgroup)
{
    int64_t ns = -1;

    for (guint i = 0; i < processes->len; i++) {
        const struct vg_history_process *process =
            &g_array_index(processes, struct vg_history_process, i);
        if (i > 0)
            assert_true(process->ns <= process[-1].ns);
        if (strcmp(process->comm, comm) != 0 || strcmp(process->cgroup, cgroup) != 0)
            continue;
        assert_int_equal(ns, -1);
        ns = process->ns;
    }
    return ns;
}

/* So many seconds of it, of which no more than eight of a VM and of the host are kept. */
static void
assert_took(vg_store *store, int64_t since_ns, int64_t until_ns, int64_t seconds)
{
    g_autoptr(vg_history_host) host = read_host(store, since_ns, until_ns);

    for (guint i = 0; i < 2; i++) {
        const struct vg_history_vm *vm = host->vms->pdata[i];
        const bool first = strcmp(vm->name, "vm-0") == 0;
        assert_int_equal(vm->processes->len, first ? 8 : 2);
        assert_int_equal(took(vm->processes, "backup", "/system.slice/a"), 5 * seconds);
        assert_int_equal(took(vm->processes, "backup", "/system.slice/b"), 4 * seconds);
        assert_int_equal(took(vm->processes, "cron", ""), first ? 3 * seconds : -1);
        assert_int_equal(took(vm->processes, "\xff", "/"), first ? 2 * seconds : -1);
        assert_int_equal(took(vm->processes, "small5", ""), -1);
    }
    assert_int_equal(host->processes->len, 8);
    assert_int_equal(took(host->processes, "backup", "/system.slice/a"), 10 * seconds);
    assert_int_equal(took(host->processes, "cron", ""), 3 * seconds);
    assert_int_equal(g_array_index(host->processes, struct vg_history_process, 0).count,
                     2 * seconds);
}

/* Of minutes, of the hour, and after a restart in the middle of a minute. */
static void
test_processes(void **state)
{
    vg_store *store = store_open(*state);

    put_seconds(store, *state, 0, 130);
    /* Of the minute that goes on they are not known yet. */
    assert_took(store, T0, T0 + 2 * MIN_NS, 120);
    assert_took(store, T0, T0 + 130 * S_NS, 120);
    assert_took(store, T0 + S_NS, T0 + 2 * MIN_NS, 60);
    vg_store_free(store);
    store = store_open(*state);
    put_seconds(store, *state, 130, 181);
    assert_took(store, T0, T0 + 3 * MIN_NS, 180);
    assert_took(store, T0 + 2 * MIN_NS, T0 + 3 * MIN_NS, 60);
    vg_store_free(store);
    /* From the hour alone. */
    g_autofree char *minutes = g_build_filename(*state, "ts1m-202611.db", NULL);
    g_autofree char *day = g_build_filename(*state, "ts-20261120.db", NULL);
    assert_int_equal(g_remove(minutes), 0);
    assert_int_equal(g_remove(day), 0);
    store = store_open(*state);
    assert_took(store, T0, T0 + HOUR_NS, 181);
    vg_store_free(store);
}

/* What is put again replaces what was there, and is not added to it. */
static void
test_processes_again(void **state)
{
    for (int i = 0; i < 3; i++) {
        vg_store *store = store_open(*state);
        put_seconds(store, *state, 0, 121);
        assert_took(store, T0, T0 + 2 * MIN_NS, 120);
        vg_store_free(store);
    }
    vg_store *store = store_open(*state);
    put_seconds(store, *state, 30, 61);
    put_seconds(store, *state, 30, 61);
    vg_store_free(store);
    assert_int_equal(store_ask(*state, "ts1m-202611.db",
                               "SELECT count(*) FROM took WHERE win NOT IN (SELECT id FROM win)"),
                     0);
}

static int64_t
lost_of(vg_store *store, int64_t since_ns, int64_t until_ns, const char *aggressor)
{
    g_autoptr(vg_history_host) host = read_host(store, since_ns, until_ns);

    for (guint i = 0; i < host->vms->len; i++) {
        const struct vg_history_vm *vm = host->vms->pdata[i];
        if (strcmp(vm->name, "vm-0") == 0)
            return store_lost_to(&vm->row, aggressor);
    }
    return -2;
}

/* One of twelve is large in each second, one that changes; all of them are in the minute. */
static void
test_top_of_the_minute(void **state)
{
    vg_store *store = open_with(*state, 2);

    for (int i = 0; i < 121; i++) {
        struct vg_window window;
        store_case_window(&window, T0 + i * S_NS, T0 + (i + 1) * S_NS, 14);
        GArray *losses = g_array_index(window.vms, struct vg_vm_sample, 0).lost_to;
        g_array_set_size(losses, 0);
        for (uint32_t k = 0; k < 12; k++) {
            struct vg_lost_to lost = {.kind = VG_AGGRESSOR_VM,
                                      .vm_id = 1001 + k,
                                      .ns = (uint32_t)i % 12 == k ? 1000 : 10 + k,
                                      .count = 1};
            g_array_append_val(losses, lost);
        }
        store_case_put_window(store, "a", &window, 0);
        vg_window_clear(&window);
    }
    assert_true(vg_store_flush(store, STORE_LONG_NS));
    for (int round = 0; round < 2; round++) {
        for (int64_t k = 0; k < 12; k++) {
            g_autofree char *name = g_strdup_printf("vm-%d", (int)k + 1);
            assert_int_equal(lost_of(store, T0, T0 + MIN_NS, name), 5 * 1000 + 55 * (10 + k));
        }
        assert_int_equal(lost_of(store, T0, T0 + MIN_NS, "rest"), -1);
        /* Of less than a minute seconds are all there is. */
        assert_int_equal(lost_of(store, T0, T0 + S_NS, "rest"), 11 * 10 + 66 - 21);
        vg_store_free(store);
        store = open_with(*state, 2);
    }
    vg_store_free(store);
}

/* The last second before end, in which the first VM lost time to `steady`, and to seven that come
 * once, or to eight of those. */
static void
put_hour(vg_store *store, int64_t end_ns, int *n_names, int64_t ns, int64_t steady_ns)
{
    struct vg_window window;
    char comm[VG_COMM_LEN];

    store_case_window(&window, end_ns - S_NS, end_ns, 1);
    if (steady_ns > 0)
        add_process(&window, 0, "steady", "", steady_ns);
    for (int i = steady_ns > 0 ? 1 : 0; i < 8; i++) {
        g_snprintf(comm, sizeof(comm), "name%d", ++*n_names);
        add_process(&window, 0, comm, "", ns);
    }
    store_case_put_window(store, "a", &window, 0);
    vg_window_clear(&window);
}

static int64_t
steady_took(vg_store *store, int64_t since_ns, int64_t until_ns)
{
    g_autoptr(vg_history_host) host = read_host(store, since_ns, until_ns);
    const struct vg_history_vm *vm = host->vms->pdata[0];

    return took(vm->processes, "steady", "");
}

/* Of 300 hours, in the first of which 256 names took more than one of the others in 30 hours. */
static void
test_long_times(void **state)
{
    vg_store *store = store_open(*state);
    const int old = 256 / 8, hours = 300;
    int n_names = 0;

    for (int i = 0; i < hours; i++) {
        put_hour(store, T0 + (i + 1) * HOUR_NS, &n_names, i < old ? 1000 : 1, i < old ? 0 : 20);
        assert_true(vg_store_flush(store, STORE_LONG_NS));
    }
    /* One more, so that the hours before are summed. */
    put_hour(store, T0 + hours * HOUR_NS + MIN_NS, &n_names, 1, 0);
    assert_true(vg_store_flush(store, STORE_LONG_NS));
    const int64_t until = vg_clock_monotonic_ns() + STORE_LONG_NS;
    while (steady_took(store, T0 + (hours - 1) * HOUR_NS, T0 + hours * HOUR_NS) != 20)
        assert_true(vg_clock_monotonic_ns() < until);
    assert_true(steady_took(store, T0, T0 + hours * HOUR_NS) > 20 * (hours - old - 40));
    vg_store_free(store);
}

static void
add_program(struct vg_window *window, const char *comm, const char *cgroup, int64_t ns)
{
    struct vg_lost_process program = {.pid = 7, .pids = 1, .ns = ns};

    g_strlcpy(program.comm, comm, sizeof(program.comm));
    g_strlcpy(program.cgroup, cgroup, sizeof(program.cgroup));
    g_array_append_val(window->programs, program);
    window->programs_ns = 10 * S_NS;
}

/* Each tenth window has CPU time of programs: 7 ns of make, 5 of ten others, each of which comes
 * once a minute. */
static void
put_programs(vg_store *store, const char *directory, int from, int to)
{
    for (int i = from; i < to; i++) {
        struct vg_window window;
        store_case_window(&window, T0 + i * S_NS, T0 + (i + 1) * S_NS, 1);
        add_process(&window, 0, "backup", "/b", 3);
        if (i % 10 == 9) {
            char comm[VG_COMM_LEN];
            add_program(&window, "make", "/user.slice", 7);
            g_snprintf(comm, sizeof(comm), "other%d", i / 10);
            add_program(&window, comm, "", 5);
        }
        store_case_put_window(store, "a", &window, 0);
        vg_window_clear(&window);
    }
    assert_true(vg_store_flush(store, STORE_LONG_NS));
    const int64_t until = vg_clock_monotonic_ns() + STORE_LONG_NS;
    g_autofree char *sql =
        g_strdup_printf("SELECT count(*) FROM stale WHERE end_ns <= %" G_GINT64_FORMAT,
                        T0 + (to - 1) / 60 * MIN_NS);
    while (store_ask(directory, "ts-20261120.db", sql) != 0) {
        assert_true(vg_clock_monotonic_ns() < until);
        g_usleep(1000);
    }
}

static void
assert_programs(vg_store *store, int64_t minutes)
{
    g_autoptr(vg_history_host) host = read_host(store, T0, T0 + minutes * MIN_NS);
    const struct vg_history_query query = {
        .since_ns = T0, .until_ns = T0 + minutes * MIN_NS, .step_ns = MIN_NS};
    g_autoptr(GArray) steps = vg_store_read_steps(store, &query, NULL);

    assert_int_equal(took(host->programs, "make", "/user.slice"), minutes * 6 * 7);
    assert_int_equal(took(host->programs, "other3", ""), 5);
    assert_int_equal(took(host->programs, "backup", "/b"), -1);
    assert_int_equal(took(host->processes, "make", "/user.slice"), -1);
    assert_int_equal(took(host->processes, "backup", "/b"), minutes * 60 * 3);
    assert_int_equal(steps->len, minutes);
    for (guint i = 0; i < steps->len; i++) {
        const GArray *programs = g_array_index(steps, struct vg_history_step, i).programs;
        g_autofree char *other = g_strdup_printf("other%u", 6 * i + 5);
        assert_int_equal(programs->len, 7);
        assert_int_equal(took(programs, "make", "/user.slice"), 6 * 7);
        assert_int_equal(took(programs, other, ""), 5);
    }
}

/* Of minutes, steps and hours; not mixed up with the processes behind host:user. */
static void
test_programs(void **state)
{
    vg_store *store = store_open(*state);

    put_programs(store, *state, 0, 121);
    assert_programs(store, 2);
    vg_store_free(store);
    store = store_open(*state);
    assert_programs(store, 2);
    put_programs(store, *state, 121, 181);
    assert_programs(store, 3);
    vg_store_free(store);
    g_autofree char *minutes = g_build_filename(*state, "ts1m-202611.db", NULL);
    g_autofree char *day = g_build_filename(*state, "ts-20261120.db", NULL);
    assert_int_equal(g_remove(minutes), 0);
    assert_int_equal(g_remove(day), 0);
    store = store_open(*state);
    g_autoptr(vg_history_host) host = read_host(store, T0, T0 + HOUR_NS);
    assert_int_equal(took(host->programs, "make", "/user.slice"), 3 * 6 * 7);
    assert_int_equal(host->programs->len, 16);
    assert_int_equal(took(host->processes, "backup", "/b"), 181 * 3);
    vg_store_free(store);
}

int
main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, store_set_up, store_tear_down)
    const struct CMUnitTest tests[] = {
        CASE(test_processes),  CASE(test_processes_again), CASE(test_top_of_the_minute),
        CASE(test_long_times), CASE(test_programs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
