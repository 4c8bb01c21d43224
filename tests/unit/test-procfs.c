/* SPDX-License-Identifier: Apache-2.0
 *
 * The collector of /proc: fitting counters into time, a fake /proc whose threads come and go, and
 * the real one with a thread that wants a CPU which another has too.
 */
#include "config.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "collectors/live.h"
#include "collectors/vcpu-affinity.h"
#include "collectors/vcpu-meter.h"
#include "tests/unit/collector-run.h"
#include "tests/unit/fake-clock.h"
#include "tests/unit/fake-proc.h"

#define WINDOW_NS     (50 * VG_NS_PER_MS)
#define MS            VG_NS_PER_MS
#define HANGS_WINDOWS 2000 /* 100 s */

/* ---- the meter ---- */

static struct vg_cpu_figures
meter_step(struct vg_vcpu_meter *meter, struct vg_vcpu_reading reading)
{
    struct vg_cpu_figures f = {0};

    assert_true(vg_vcpu_meter_read(meter, &reading, &f));
    assert_int_equal(f.run_ns + f.preempt_ns + f.wake_wait_ns + f.blocked_ns, f.observed_ns);
    assert_in_range(f.guest_ns, 0, f.run_ns);
    assert_true(f.wake_wait_ns >= 0 && f.blocked_ns >= 0);
    return f;
}

static void
test_meter_carries_over(void **state)
{
    struct vg_vcpu_meter meter = {0};
    struct vg_cpu_figures f;
    struct vg_vcpu_reading r = {.at_ns = 1000, .run_ns = 5000, .wait_ns = 70, .voluntary = 3};

    (void)state;
    assert_false(vg_vcpu_meter_read(&meter, &r, &f));
    /* 100 passed; the counters say 90 + 30: 20 of the wait are left for later. */
    r = (struct vg_vcpu_reading){
        .at_ns = 1100, .run_ns = 5090, .wait_ns = 100, .voluntary = 4, .nonvoluntary = 2};
    f = meter_step(&meter, r);
    assert_int_equal(f.run_ns, 90);
    assert_int_equal(f.wake_wait_ns, 10);
    assert_int_equal(f.blocked_ns, 0);
    assert_int_equal(f.blocks, 1);
    assert_int_equal(f.preemptions, 2);
    assert_int_equal(f.switches_out, 3);
    /* 130 of run in 100: 30 of it, and the 20, wait on. */
    r.at_ns = 1200;
    r.run_ns = 5220;
    f = meter_step(&meter, r);
    assert_int_equal(f.run_ns, 100);
    assert_int_equal(f.wake_wait_ns, 0);
    r.at_ns = 1300;
    f = meter_step(&meter, r);
    assert_int_equal(f.run_ns, 30);
    assert_int_equal(f.wake_wait_ns, 20);
    assert_int_equal(f.blocked_ns, 50);
    r.at_ns = 1400;
    f = meter_step(&meter, r);
    assert_int_equal(f.run_ns + f.wake_wait_ns, 0);
    assert_false(meter.guest_moved);
}

static void
test_meter_guest(void **state)
{
    struct vg_vcpu_meter meter = {0};
    struct vg_cpu_figures f;
    struct vg_vcpu_reading r = {.at_ns = 0};

    (void)state;
    assert_false(vg_vcpu_meter_read(&meter, &r, &f));
    /* A tick of guest time, of which only a part has been counted as run time yet. */
    r = (struct vg_vcpu_reading){.at_ns = 1000 * MS, .run_ns = 7 * MS, .guest_ns = 10 * MS};
    f = meter_step(&meter, r);
    assert_int_equal(f.guest_ns, 7 * MS);
    assert_true(meter.guest_moved);
    r.at_ns = 2000 * MS;
    r.run_ns = 12 * MS;
    f = meter_step(&meter, r);
    assert_int_equal(f.guest_ns, 3 * MS);
    /* Backwards: nothing. */
    r = (struct vg_vcpu_reading){.at_ns = 3000 * MS};
    f = meter_step(&meter, r);
    assert_int_equal(f.run_ns + f.guest_ns + f.wake_wait_ns, 0);
    assert_int_equal(f.switches_out, 0);
    r = (struct vg_vcpu_reading){.at_ns = 3000 * MS, .run_ns = UINT64_MAX, .wait_ns = UINT64_MAX};
    f = meter_step(&meter, r);
    assert_int_equal(f.observed_ns, 0);
    r.at_ns = 4000 * MS;
    f = meter_step(&meter, r);
    assert_int_equal(f.run_ns, 1000 * MS);
}

/* ---- a fake /proc ---- */

static vg_collector *
procfs_new(const char *proc, int64_t window_ns)
{
    const struct vg_live_options options = {.proc = proc, .window_ns = window_ns};
    vg_cpu_source *source = vg_source_proc_new(proc);

    return vg_live_new(&options, &source, 1);
}

static void
check_window(const struct vg_report *report)
{
    const struct vg_window *window = &report->window;

    assert_true(window->begin_ns < window->end_ns);
    assert_int_equal(window->begin_ns % WINDOW_NS, 0);
    assert_int_equal(window->end_ns % WINDOW_NS, 0);
    assert_string_equal(report->provenance.source, "procfs");
    assert_false(vg_provenance_knows(&report->provenance, VG_MEASURE_WAIT_KINDS));
    assert_string_equal(report->provenance.series, "live");
    for (unsigned i = 0; i < window->vms->len; i++) {
        const struct vg_vm_sample *vm = &g_array_index(window->vms, struct vg_vm_sample, i);
        struct vg_cpu_figures sum = {0};
        int64_t lost_ns = 0;
        assert_true(vm->vcpus->len > 0);
        for (unsigned k = 0; k < vm->vcpus->len; k++) {
            const struct vg_cpu_figures *f =
                &g_array_index(vm->vcpus, struct vg_vcpu_sample, k).cpu;
            assert_int_equal(f->run_ns + f->preempt_ns + f->wake_wait_ns + f->blocked_ns,
                             f->observed_ns);
            vg_cpu_figures_add(&sum, f);
        }
        assert_memory_equal(&sum, &vm->cpu, sizeof(sum));
        for (unsigned k = 0; k < vm->lost_to->len; k++)
            lost_ns += g_array_index(vm->lost_to, struct vg_lost_to, k).ns;
        assert_int_equal(lost_ns, sum.preempt_ns + sum.wake_wait_ns);
    }
}

static vg_report *
next_window(struct collector_run *run)
{
    vg_report *report = collector_run_wait(run, VG_REPORT_WINDOW);

    check_window(report);
    return report;
}

static const struct vg_vm_sample *
find_sample(const vg_report *report, const char *name)
{
    for (unsigned i = 0; i < report->window.vms->len; i++) {
        const struct vg_vm_sample *vm = &g_array_index(report->window.vms, struct vg_vm_sample, i);
        if (strcmp(vm->name, name) == 0)
            return vm;
    }
    return NULL;
}

static const struct vg_vm_sample *
sample_of(const vg_report *report, const char *name)
{
    static const struct vg_vm_sample none;
    const struct vg_vm_sample *vm = find_sample(report, name);

    assert_non_null(vm);
    return vm ? vm : &none;
}

/* Windows until the VM has this many vCPUs. */
static vg_report *
until_vcpus(struct collector_run *run, const char *name, unsigned vcpus)
{
    for (;;) {
        vg_report *report = next_window(run);
        const struct vg_vm_sample *vm = find_sample(report, name);
        if ((vm ? vm->vcpus->len : 0) == vcpus)
            return report;
        vg_report_free(report);
    }
}

#define CMDLINE "qemu\0-name\0vm"

/* The vCPU's tid is the one after the pid. */
static void
make_vm(const char *proc, int pid, uint64_t process_start, struct fake_task vcpu)
{
    vcpu.pid = pid;
    vcpu.tid = pid + 1;
    vcpu.comm = "CPU 0/KVM";
    fake_proc_process(proc, pid, "qemu-system-x86", process_start, 2, CMDLINE, sizeof(CMDLINE));
    fake_proc_task(proc, &vcpu);
}

static void
test_windows(void **state)
{
    const char *proc = *state;
    struct fake_task vcpu = {.start = 9, .run_ns = 1000, .timeslices = 1};
    int64_t run_ns = 0, wait_ns = 0, guest_ns = 0, last_end_ns = 0;
    uint64_t preemptions = 0, blocks = 0;

    make_vm(proc, 10, 2, vcpu);
    struct collector_run *run = fake_clock_run(procfs_new(proc, WINDOW_NS));
    g_autoptr(vg_report) first = until_vcpus(run, "vm", 1);
    last_end_ns = first->window.end_ns;
    assert_false(sample_of(first, "vm")->guest_known);
    assert_int_equal(sample_of(first, "vm")->cpu.blocked_ns,
                     sample_of(first, "vm")->cpu.observed_ns);

    /* 0.4 s of run and 0.1 s of wait at once: they are given out over at least ten windows. */
    vcpu = (struct fake_task){.start = 9,
                              .run_ns = 400 * MS + 1000,
                              .wait_ns = 100 * MS,
                              .timeslices = 4,
                              .guest_ticks = 20,
                              .voluntary = 5,
                              .nonvoluntary = 7};
    make_vm(proc, 10, 2, vcpu);
    for (int i = 0; i < 14; i++) {
        g_autoptr(vg_report) report = next_window(run);
        const struct vg_vm_sample *vm = sample_of(report, "vm");
        assert_int_equal(report->window.begin_ns, last_end_ns);
        last_end_ns = report->window.end_ns;
        run_ns += vm->cpu.run_ns;
        wait_ns += vm->cpu.wake_wait_ns;
        guest_ns += vm->cpu.guest_ns;
        preemptions += vm->cpu.preemptions;
        blocks += vm->cpu.blocks;
        if (i == 13) {
            assert_true(vm->guest_known);
            assert_int_equal(vm->id, 0);
        }
    }
    assert_int_equal(run_ns, 400 * MS);
    assert_int_equal(wait_ns, 100 * MS);
    assert_true(guest_ns > 0 && guest_ns <= 200 * MS);
    assert_int_equal(preemptions, 7);
    assert_int_equal(blocks, 5);
    fake_clock_end(run);
}

static void
test_come_and_go(void **state)
{
    const char *proc = *state;
    g_autofree char *dir = g_strdup_printf("%s/10", proc);
    g_autofree char *second = g_strdup_printf("%s/10/task/12", proc);
    struct fake_task vcpu = {.start = 9, .run_ns = 90000 * MS, .timeslices = 1};
    struct fake_task plugged = {.pid = 10,
                                .tid = 12,
                                .comm = "CPU 1/KVM",
                                .start = 11,
                                .run_ns = 5000 * MS,
                                .timeslices = 1};

    struct collector_run *run = fake_clock_run(procfs_new(proc, WINDOW_NS));
    g_autoptr(vg_report) none = next_window(run);
    assert_int_equal(none->window.vms->len, 0);
    make_vm(proc, 10, 2, vcpu);
    /* What it ran before it was seen is nobody's. */
    g_autoptr(vg_report) first = until_vcpus(run, "vm", 1);
    assert_int_equal(sample_of(first, "vm")->cpu.run_ns, 0);
    fake_proc_task(proc, &plugged);
    g_autoptr(vg_report) two = until_vcpus(run, "vm", 2);
    assert_int_equal(sample_of(two, "vm")->cpu.run_ns, 0);
    fake_proc_remove(second);
    g_autoptr(vg_report) one = until_vcpus(run, "vm", 1);
    assert_int_equal(sample_of(one, "vm")->id, 0);

    /* Gone and back as another process with other threads of the same numbers. */
    fake_proc_remove(dir);
    vcpu.start = 5000;
    vcpu.run_ns = 95000 * MS;
    make_vm(proc, 10, 4999, vcpu);
    vg_report_free(until_vcpus(run, "vm", 0));
    g_autoptr(vg_report) again = until_vcpus(run, "vm", 1);
    assert_int_equal(sample_of(again, "vm")->cpu.run_ns, 0);
    fake_clock_end(run);
}

/* The tid of a vCPU comes back in the same process, between two windows. */
static void
test_tid_reuse(void **state)
{
    const char *proc = *state;
    struct fake_task vcpu = {.start = 9, .run_ns = 100 * MS, .timeslices = 1};

    make_vm(proc, 10, 2, vcpu);
    struct collector_run *run = fake_clock_run(procfs_new(proc, WINDOW_NS));
    vg_report_free(until_vcpus(run, "vm", 1));
    vcpu.start = 10;
    vcpu.run_ns = 60000 * MS;
    make_vm(proc, 10, 2, vcpu);
    for (int i = 0; i < 4; i++) {
        g_autoptr(vg_report) report = next_window(run);
        const struct vg_vm_sample *vm = find_sample(report, "vm");
        assert_int_equal(vm ? vm->cpu.run_ns : 0, 0);
    }
    fake_clock_end(run);
}

static void
test_without_schedstat(void **state)
{
    const char *proc = *state;
    struct fake_task vcpu = {.start = 9, .ticks = 100};
    int64_t run_ns = 0;

    make_vm(proc, 10, 2, vcpu);
    struct collector_run *run = fake_clock_run(procfs_new(proc, WINDOW_NS));
    g_autoptr(vg_report) degraded = collector_run_state(run, VG_COLLECTOR_DEGRADED);
    assert_non_null(strstr(degraded->text, "schedstat"));
    vg_report_free(until_vcpus(run, "vm", 1));
    vcpu.ticks = 102; /* two of 10 ms */
    make_vm(proc, 10, 2, vcpu);
    for (int i = 0; i < 4; i++) {
        g_autoptr(vg_report) report = next_window(run);
        run_ns += sample_of(report, "vm")->cpu.run_ns;
    }
    assert_int_equal(run_ns, 2 * VG_NS_PER_S / sysconf(_SC_CLK_TCK));
    fake_clock_end(run);
}

static void
test_status(void **state)
{
    const char *proc = *state;
    g_autofree char *moved = g_strdup_printf("%s-moved", proc);

    struct collector_run *run = fake_clock_run(procfs_new(proc, WINDOW_NS));
    g_autoptr(vg_report) ok = collector_run_state(run, VG_COLLECTOR_OK);
    assert_string_equal(ok->text, "0 VMs, by procfs");
    make_vm(proc, 10, 2, (struct fake_task){.start = 9});
    g_autoptr(vg_report) one = collector_run_state(run, VG_COLLECTOR_OK);
    assert_string_equal(one->text, "1 VM, by procfs");
    assert_int_equal(rename(proc, moved), 0);
    g_autoptr(vg_report) failed = collector_run_state(run, VG_COLLECTOR_FAILED);
    assert_non_null(strstr(failed->text, proc));
    assert_int_equal(rename(moved, proc), 0);
    g_autoptr(vg_report) again = collector_run_state(run, VG_COLLECTOR_OK);
    assert_string_equal(again->text, "1 VM, by procfs");
    /* Only changes are told. */
    for (int i = 0; i < 6; i++) {
        g_autoptr(vg_report) report = collector_run_any(run);
        assert_int_equal(report->kind, VG_REPORT_WINDOW);
    }
    fake_clock_end(run);
}

/* With and without room for open files. */
static void
test_many_threads(void **state)
{
    const char *proc = *state;
    struct rlimit old, few = {0};

    fake_proc_process(proc, 10, "qemu-system-x86", 2, 2, CMDLINE, sizeof(CMDLINE));
    for (int i = 0; i < 300; i++) {
        g_autofree char *comm = g_strdup_printf("CPU %d/KVM", i);
        fake_proc_task(
            proc,
            &(struct fake_task){
                .pid = 10, .tid = 11 + i, .comm = comm, .start = 9, .run_ns = 1, .timeslices = 1});
    }
    getrlimit(RLIMIT_NOFILE, &old);
    few = old;
    few.rlim_cur = 64;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    struct collector_run *run = fake_clock_run(procfs_new(proc, 10 * WINDOW_NS));
    g_autoptr(vg_report) report = until_vcpus(run, "vm", 300);
    const struct vg_vm_sample *vm = sample_of(report, "vm");
    for (int i = 0; i < 300; i++)
        assert_int_equal(g_array_index(vm->vcpus, struct vg_vcpu_sample, i).index, i);
    fake_clock_end(run);
    setrlimit(RLIMIT_NOFILE, &old);
}

/* ---- the real one ---- */

static void *
busy_vcpu(void *data)
{
    pthread_setname_np(pthread_self(), "CPU 0/KVM");
    atomic_store((atomic_int *)data, gettid());
    for (;;)
        vg_clock_monotonic_ns();
    return NULL;
}

/* A process whose second thread works all the time. */
static pid_t
start_busy(atomic_int *tid)
{
    pthread_t thread;
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pthread_create(&thread, NULL, busy_vcpu, tid);
    pthread_join(thread, NULL);
    _exit(0);
}

/* The formats of this kernel's files; how good the figures are is the business of tests/daemon. */
static void
test_real_proc(void **state)
{
    atomic_int *tid =
        mmap(NULL, sizeof(*tid), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct rusage usage;
    int64_t run_ns = 0;

    (void)state;
    assert_true(tid != MAP_FAILED);
    pid_t pid = start_busy(tid);
    while (atomic_load(tid) == 0)
        usleep(1000);
    struct collector_run *run = collector_run_start(procfs_new("/proc", WINDOW_NS));
    for (unsigned n = 0; run_ns == 0; n++) {
        assert_true(n < HANGS_WINDOWS);
        g_autoptr(vg_report) report = collector_run_wait(run, VG_REPORT_WINDOW);
        for (unsigned i = 0; i < report->window.vms->len; i++) {
            const struct vg_vm_sample *vm =
                &g_array_index(report->window.vms, struct vg_vm_sample, i);
            if (vm->pid != pid)
                continue;
            assert_int_equal(vm->vcpus->len, 1);
            assert_int_equal(g_array_index(vm->vcpus, struct vg_vcpu_sample, 0).tid,
                             atomic_load(tid));
            run_ns += vm->cpu.run_ns;
        }
    }
    collector_run_stop(run);
    kill(pid, SIGKILL);
    assert_int_equal(wait4(pid, NULL, 0, &usage), pid);
    assert_true(run_ns <= (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * VG_NS_PER_S +
                              (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec + 2) * 1000);
    munmap(tid, sizeof(*tid));
}

/* A thread that is pinned, and set free again, is asked for; one that is gone changes nothing. */
static void
test_affinity(void **state)
{
    struct vg_vcpu_sample vcpu = {.tid = gettid()}, gone = {.tid = VG_TID_LIMIT};
    struct vg_window window;
    struct vg_vm_sample sample;
    cpu_set_t before, one;
    int first = 0;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    while (!CPU_ISSET(first, &before))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    vg_window_init(&window, false);
    vg_vm_sample_init(&sample);
    g_array_append_val(sample.vcpus, vcpu);
    g_array_append_val(sample.vcpus, gone);
    g_array_append_val(window.vms, sample);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    vg_vcpu_affinity_read(&window);
    assert_int_equal(sample.cpus->len, 1);
    assert_int_equal(g_array_index(sample.cpus, int32_t, 0), first);
    assert_true(g_array_index(window.vms, struct vg_vm_sample, 0).cpus_allowed);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    vg_vcpu_affinity_read(&window);
    assert_int_equal(sample.cpus->len, CPU_COUNT(&before));
    g_array_index(sample.vcpus, struct vg_vcpu_sample, 0).tid = VG_TID_LIMIT;
    vg_vcpu_affinity_read(&window);
    assert_int_equal(sample.cpus->len, CPU_COUNT(&before));
    vg_window_clear(&window);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_meter_carries_over), cmocka_unit_test(test_meter_guest),
        cmocka_unit_test(test_affinity),           FAKE_PROC_TEST(test_windows),
        FAKE_PROC_TEST(test_come_and_go),          FAKE_PROC_TEST(test_tid_reuse),
        FAKE_PROC_TEST(test_without_schedstat),    FAKE_PROC_TEST(test_status),
        FAKE_PROC_TEST(test_many_threads),         cmocka_unit_test(test_real_proc),
    };
    return cmocka_run_group_tests_name("procfs", tests, NULL, NULL);
}
