/* SPDX-License-Identifier: Apache-2.0
 *
 * CPU time of the host's programs, read from a fake /proc.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "collectors/host-programs.h"
#include "tests/unit/fake-proc.h"

#define TICK_NS (10 * VG_NS_PER_MS)
#define N_CPUS  4
#define QEMU    "qemu-system-x86_64\0-name\0guest=a"

/* A host that is read again and again. */
struct bench {
    const char *proc;
    vg_proc_scan *scan;
    vg_host_programs *programs;
    struct vg_window window;
    int64_t now_ns; /* of both clocks */
};

static void
begin(struct bench *bench, const char *proc)
{
    *bench = (struct bench){
        .proc = proc,
        .scan = vg_proc_scan_new(proc),
        .programs = vg_host_programs_new(proc, TICK_NS, N_CPUS),
    };
    vg_window_init(&bench->window, false);
}

static void
end(struct bench *bench)
{
    vg_window_clear(&bench->window);
    vg_host_programs_free(bench->programs);
    vg_proc_scan_free(bench->scan);
}

/* Reads at the end of a window that many seconds later, which has to be long enough for the pause
 * after the reading before, however slow this machine is. */
static void
read_after(struct bench *bench, int64_t seconds)
{
    vg_window_clear(&bench->window);
    vg_window_init(&bench->window, false);
    bench->now_ns += seconds * VG_NS_PER_S;
    bench->window.end_ns = bench->now_ns;
    assert_int_equal(vg_proc_scan_update(bench->scan, bench->now_ns, NULL), 0);
    vg_host_programs_read(bench->programs, bench->scan, bench->now_ns, &bench->window);
}

#define LONG_S 10000

static void
put_in(const char *proc, int pid, int parent, const char *comm, uint64_t ticks,
       uint64_t child_ticks, const char *cgroup)
{
    g_autofree char *dir = g_strdup_printf("%s/%d", proc, pid);
    g_autofree char *stat = g_strdup_printf("%s/stat", dir);
    g_autofree char *from = g_strdup_printf("%s/task/%d/stat", dir, pid);
    g_autofree char *group = g_strdup_printf("%s/cgroup", dir);
    g_autofree char *line = g_strdup_printf("0::%s\n", cgroup);
    g_autofree char *text = NULL;
    gsize size;

    fake_proc_task(proc, &(struct fake_task){.pid = pid,
                                             .tid = pid,
                                             .comm = comm,
                                             .parent = parent,
                                             .start = (uint64_t)pid,
                                             .ticks = ticks,
                                             .child_ticks = child_ticks});
    assert_true(g_file_get_contents(from, &text, &size, NULL));
    fake_proc_write(stat, text, size);
    fake_proc_write(group, line, strlen(line));
}

static void
put(const char *proc, int pid, int parent, const char *comm, uint64_t ticks, uint64_t child_ticks)
{
    put_in(proc, pid, parent, comm, ticks, child_ticks, "/system.slice/x");
}

static void
drop(const char *proc, int pid)
{
    g_autofree char *dir = g_strdup_printf("%s/%d", proc, pid);

    fake_proc_remove(dir);
}

/* Ticks of a program in the last reading; -1: it has no row. */
static int64_t
ticks_of(const struct bench *bench, const char *comm)
{
    const GArray *rows = bench->window.programs;
    int64_t ns = -1;

    for (guint i = 0; i < rows->len; i++) {
        const struct vg_lost_process *row = &g_array_index(rows, struct vg_lost_process, i);
        if (i > 0)
            assert_true(row->ns <= row[-1].ns);
        if (strcmp(row->comm, comm) == 0)
            ns = MAX(ns, 0) + row->ns;
    }
    return ns < 0 ? -1 : ns / TICK_NS;
}

/* What ran before the first reading is left out; who starts later counts from its start. */
static void
test_readings(void **state)
{
    struct bench bench;

    put(*state, 10, 1, "hog", 100000, 5);
    put(*state, 11, 1, "idle", 3, 0);
    put(*state, 12, 2, "kworker/3:1-ev", 7, 0);
    begin(&bench, *state);
    read_after(&bench, LONG_S);
    assert_int_equal(bench.window.programs_ns, 0);
    assert_int_equal(bench.window.programs->len, 0);
    put(*state, 10, 1, "hog", 100500, 5);
    put(*state, 12, 2, "kworker/3:0-xx", 9, 0);
    put(*state, 13, 1, "late", 40, 0);
    read_after(&bench, LONG_S);
    assert_int_equal(bench.window.programs_ns, LONG_S * VG_NS_PER_S);
    assert_int_equal(bench.window.programs_end_ns, bench.now_ns);
    assert_int_equal(bench.window.programs->len, 3);
    assert_int_equal(ticks_of(&bench, "hog"), 500);
    assert_int_equal(ticks_of(&bench, "late"), 40);
    assert_int_equal(ticks_of(&bench, "kworker"), 2);
    /* Another process has the pid. */
    drop(*state, 13);
    put(*state, 13, 1, "late", 3, 0);
    read_after(&bench, LONG_S);
    assert_int_equal(bench.window.programs->len, 0);
    end(&bench);
}

/* Only windows that end a period of 10 seconds have them. */
static void
test_periods(void **state)
{
    struct bench bench;
    int n = 0;

    put(*state, 10, 1, "hog", 0, 0);
    begin(&bench, *state);
    read_after(&bench, LONG_S);
    read_after(&bench, 9);
    assert_int_equal(bench.window.programs_ns, 0);
    /* The pause after a reading depends on this machine. */
    for (int64_t s = 9; bench.window.programs_ns == 0; s += 10) {
        read_after(&bench, n++ == 0 ? 1 : 10);
        assert_true(bench.window.programs_ns == 0 ||
                    bench.window.programs_ns == (s + 1) * VG_NS_PER_S);
    }
    end(&bench);
}

/* Programs of one name are one in each control group. */
static void
test_groups(void **state)
{
    struct bench bench;

    begin(&bench, *state);
    put(*state, 9, 1, "other", 0, 0);
    read_after(&bench, LONG_S);
    put_in(*state, 10, 1, "worker", 10, 0, "/a");
    put_in(*state, 11, 1, "worker", 20, 0, "/a");
    put_in(*state, 12, 1, "worker", 25, 0, "/b");
    for (int i = 0; i < 100; i++) {
        g_autofree char *comm = g_strdup_printf("small%d", i);
        put(*state, 100 + i, 1, comm, 1, 0);
    }
    read_after(&bench, LONG_S);
    assert_int_equal(bench.window.programs->len, VG_WINDOW_PROGRAMS_MAX);
    const struct vg_lost_process *first =
        &g_array_index(bench.window.programs, struct vg_lost_process, 0);
    assert_string_equal(first->cgroup, "/a");
    assert_int_equal(first->ns, 30 * TICK_NS);
    assert_int_equal(first->pids, 2);
    assert_string_equal(first[1].cgroup, "/b");
    assert_int_equal(first[1].ns, 25 * TICK_NS);
    end(&bench);
}

/* Children that came and went count for who waited for them, and nothing counts twice. */
static void
test_children(void **state)
{
    struct bench bench;

    put(*state, 10, 1, "make", 0, 0);
    put(*state, 11, 10, "sh", 1, 0);
    put(*state, 12, 11, "cc1", 50, 0);
    begin(&bench, *state);
    read_after(&bench, LONG_S);
    put(*state, 12, 11, "cc1", 90, 0);
    read_after(&bench, LONG_S);
    assert_int_equal(ticks_of(&bench, "cc1"), 40);
    assert_int_equal(ticks_of(&bench, "make"), -1);
    /* cc1 used 10 more, then it and sh ended, which had used 2 more; 300 are of others. */
    drop(*state, 12);
    drop(*state, 11);
    put(*state, 10, 1, "make", 4, 103 + 300);
    read_after(&bench, LONG_S);
    assert_int_equal(ticks_of(&bench, "make"), 4 + 12 + 300);
    assert_int_equal(ticks_of(&bench, "cc1"), -1);
    /* make ends, and its parent gains all that it and its children used. */
    put(*state, 20, 1, "cron", 0, 0);
    put(*state, 10, 20, "make", 4, 403);
    read_after(&bench, LONG_S);
    drop(*state, 10);
    put(*state, 20, 1, "cron", 0, 4 + 403 + 5);
    read_after(&bench, LONG_S);
    assert_int_equal(ticks_of(&bench, "cron"), 5);
    end(&bench);
}

/* No program used more than the CPUs had to give. */
static void
test_impossible(void **state)
{
    struct bench bench;

    put(*state, 10, 1, "init", 0, 0);
    begin(&bench, *state);
    read_after(&bench, LONG_S);
    put(*state, 10, 1, "init", 0, UINT64_C(1) << 62);
    read_after(&bench, LONG_S);
    assert_int_equal(ticks_of(&bench, "init"), LONG_S * VG_NS_PER_S * N_CPUS / TICK_NS);
    end(&bench);
}

/* VMs and what works for them are no programs of the host, nor is what their parent gains. */
static void
test_vms(void **state)
{
    static const struct fake_task vcpu = {.pid = 30, .tid = 31, .comm = "CPU 0/KVM", .start = 30};
    struct bench bench;

    put(*state, 20, 1, "init", 0, 0);
    fake_proc_process(*state, 30, "qemu-system-x86", 30, 2, QEMU, sizeof(QEMU));
    fake_proc_task(*state, &vcpu);
    put(*state, 32, 30, "render", 0, 0);
    begin(&bench, *state);
    read_after(&bench, LONG_S);
    assert_int_equal(vg_proc_scan_vms(bench.scan)->len, 1);
    put(*state, 20, 1, "init", 1, 0);
    put(*state, 30, 20, "qemu-system-x86", 900, 0);
    put(*state, 32, 30, "render", 800, 0);
    read_after(&bench, LONG_S);
    assert_int_equal(bench.window.programs->len, 1);
    assert_int_equal(ticks_of(&bench, "init"), 1);
    drop(*state, 32);
    drop(*state, 30);
    put(*state, 20, 1, "init", 3, 50000);
    read_after(&bench, LONG_S);
    assert_int_equal(ticks_of(&bench, "init"), 2);
    end(&bench);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        FAKE_PROC_TEST(test_readings), FAKE_PROC_TEST(test_periods),    FAKE_PROC_TEST(test_groups),
        FAKE_PROC_TEST(test_children), FAKE_PROC_TEST(test_impossible), FAKE_PROC_TEST(test_vms),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
