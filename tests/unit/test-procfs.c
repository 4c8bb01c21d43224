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
#include "collectors/host-contention.h"
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

static void
write_text(const char *dir, const char *name, const char *text)
{
    g_autofree char *path = g_build_filename(dir, name, NULL);
    g_autofree char *parent = g_path_get_dirname(path);

    assert_int_equal(g_mkdir_with_parents(parent, 0700), 0);
    fake_proc_write(path, text, strlen(text));
}

/* Texts of a Linux 6.18 host and what they say, read off by eye. */
static void
test_host_contention(void **state)
{
    const char *proc = *state;
    static const char stat[] = "cpu  68 1 19 72 2 0 2 33 0 0\ncpu0 3 3 9 3 7 0 1 17 0 0\n"
                               "procs_running 3\nprocs_blocked 0\n";
    struct vg_host_contention contention = {
        .proc = proc, .cgroup = proc, .tick_ns = 10 * VG_NS_PER_MS};
    struct vg_host_sample host;
    g_autoptr(GArray) cpus = g_array_new(FALSE, FALSE, sizeof(struct vg_host_cpu));

    contention.cpus = (struct vg_host_cpus){.sys = proc, .tick_ns = contention.tick_ns};

    assert_int_equal(vg_host_parse_steal(stat), 33);
    assert_int_equal(vg_host_parse_runnable(stat), 3);
    assert_int_equal(vg_host_parse_busy(stat), 68 + 1 + 19 + 0 + 2);
    assert_int_equal(vg_host_parse_busy("cpu 1 2 3\n"), -1);
    assert_int_equal(vg_host_parse_steal("cpu 1 2 3\n"), -1);
    assert_int_equal(vg_host_parse_steal(""), -1);
    assert_int_equal(vg_host_parse_runnable("procs_running x"), -1);
    assert_int_equal(vg_host_parse_pressure("some avg10=2.06 avg60=11.02 avg300=21.88 total=174\n"
                                            "full avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"),
                     174);
    assert_int_equal(vg_host_parse_pressure("full avg10=0.00 total=5\n"), -1);
    vg_host_contention_read(&contention, &host, cpus);
    assert_true(host.steal_ns == -1 && host.pressure_ns == -1 && host.runnable == -1);
    assert_true(host.idle_ns == -1 && host.load[0] < 0 && cpus->len == 0);
    assert_non_null(strstr(host.no_pressure, "CONFIG_PSI"));
    assert_non_null(strstr(host.no_cpu_waits, "CONFIG_SCHEDSTATS"));
    write_text(proc, "stat", stat);
    write_text(proc, "machine.slice/cpu.pressure", "some avg10=0.00 total=1000\n");
    vg_host_contention_read(&contention, &host, cpus);
    assert_true(host.steal_ns == -1 && host.pressure_ns == -1 && host.runnable == 2 &&
                host.own_ns == -1);
    write_text(proc, "stat", "cpu 69 1 19 72 2 0 2 35 0 0\nprocs_running 1\n");
    write_text(proc, "machine.slice/cpu.pressure", "some avg10=0.00 total=1500\n");
    vg_host_contention_read(&contention, &host, cpus);
    assert_int_equal(host.steal_ns, 20 * VG_NS_PER_MS);
    assert_int_equal(host.pressure_ns, 500 * 1000);
    assert_int_equal(host.runnable, 0);
    assert_int_equal(host.own_ns, 10 * VG_NS_PER_MS);
    vg_host_contention_clear(&contention);
}

/* The whole host: idle, load, pressure of three resources. What is missing is told as missing. */
static void
test_host_pressure(void **state)
{
    const char *proc = *state;
    struct vg_host_contention contention = {
        .proc = proc, .cgroup = proc, .tick_ns = 10 * VG_NS_PER_MS};
    struct vg_host_sample host;
    g_autoptr(GArray) cpus = g_array_new(FALSE, FALSE, sizeof(struct vg_host_cpu));
    double load[3] = {0};

    contention.cpus = (struct vg_host_cpus){.sys = proc, .tick_ns = contention.tick_ns};
    assert_int_equal(vg_host_parse_idle("cpu  68 1 19 72 2 0 2 33 0 0\n"), 74);
    assert_int_equal(vg_host_parse_idle("cpu 68 1 19\n"), -1);
    assert_int_equal(vg_host_parse_full_pressure("some avg10=2.06 total=174\n"
                                                 "full avg10=0.00 total=5\n"),
                     5);
    assert_int_equal(vg_host_parse_full_pressure("some avg10=2.06 total=174\n"), -1);
    assert_true(vg_host_parse_load("8.07 3.98 1.81 11/212 1283\n", load));
    assert_true(load[0] == 8.07 && load[1] == 3.98 && load[2] == 1.81);
    assert_false(vg_host_parse_load("8.07 -1 1.81", load));
    assert_false(vg_host_parse_load("8.07 3.98", load));
    assert_false(vg_host_parse_load("nan 1 1", load));
    assert_true(load[0] == 8.07);
    write_text(proc, "stat", "cpu  68 1 19 72 2 0 2 33 0 0\nprocs_running 3\n");
    write_text(proc, "loadavg", "0.50 1.50 2.50 1/100 7\n");
    write_text(proc, "pressure/cpu", "some avg10=0.00 total=1000\nfull avg10=0.00 total=0\n");
    write_text(proc, "pressure/io", "some avg10=0.00 total=7\nfull avg10=0.00 total=7\n");
    vg_host_contention_read(&contention, &host, cpus);
    assert_true(host.load[0] == 0.5 && host.load[2] == 2.5);
    assert_int_equal(host.pressure[VG_RESOURCE_CPU].some_ns, -1);
    write_text(proc, "stat", "cpu  68 1 19 80 4 0 2 33 0 0\nprocs_running 3\n");
    write_text(proc, "pressure/cpu", "some avg10=0.00 total=1500\nfull avg10=0.00 total=20\n");
    write_text(proc, "pressure/io", "some avg10=0.00 total=7\nfull avg10=0.00 total=7\n");
    vg_host_contention_read(&contention, &host, cpus);
    assert_int_equal(host.idle_ns, 100 * VG_NS_PER_MS);
    assert_int_equal(host.pressure[VG_RESOURCE_CPU].some_ns, 500 * 1000);
    assert_int_equal(host.pressure[VG_RESOURCE_CPU].full_ns, 20 * 1000);
    assert_int_equal(host.pressure[VG_RESOURCE_IO].some_ns, 0);
    assert_int_equal(host.pressure[VG_RESOURCE_MEMORY].some_ns, -1);
    assert_non_null(host.no_pressure);
    vg_host_contention_clear(&contention);
}

static const struct vg_host_cpu *
cpu_at(const GArray *cpus, guint i)
{
    assert_true(i < cpus->len);
    return &g_array_index(cpus, struct vg_host_cpu, i);
}

/* CPUs one by one: two nodes, one CPU that comes later, waits where the kernel tells them. */
static void
test_host_cpus(void **state)
{
    const char *sys = *state;
    struct vg_host_cpus state_of = {.sys = sys, .tick_ns = 10 * VG_NS_PER_MS};
    g_autoptr(GArray) cpus = g_array_new(FALSE, FALSE, sizeof(struct vg_host_cpu));
    g_autoptr(GHashTable) nodes = g_hash_table_new(NULL, NULL);

    write_text(sys, "devices/system/node/node0/cpulist", "0\n");
    write_text(sys, "devices/system/node/node1/cpulist", "1-2\n");
    write_text(sys, "devices/system/node/online", "0-1\n");
    vg_host_cpus_read(&state_of,
                      "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 10 5 0 4 7 0 0\n"
                      "cpu2 1 1 1 1 1 1 1 1 0 0\nintr 5 1\n",
                      "version 15\ncpu0 0 0 0 0 0 0 100 2000 9\n"
                      "domain0 3 0 0 0\ncpu2 0 0 0 0 0 0 100 50 9\n",
                      cpus);
    assert_int_equal(cpus->len, 0);
    vg_host_cpus_read(&state_of,
                      "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 2 2 5 11 6 1 5 9 0 0\n"
                      "cpu1 1 1 1 1 1 1 1 1 0 0\ncpu2 1 1 1 0 1 1 1 1 0 0\nintr 5 1\n",
                      "version 15\ncpu0 0 0 0 0 0 0 100 2700 9\ncpu1 0 0 0 0 0 0 1 1 1\n", cpus);
    assert_int_equal(cpus->len, 2);
    assert_int_equal(cpu_at(cpus, 0)->cpu, 0);
    assert_int_equal(cpu_at(cpus, 0)->node, 0);
    assert_int_equal(cpu_at(cpus, 0)->busy_ns, (1 + 2 + 1 + 1) * 10 * VG_NS_PER_MS);
    assert_int_equal(cpu_at(cpus, 0)->idle_ns, 2 * 10 * VG_NS_PER_MS);
    assert_int_equal(cpu_at(cpus, 0)->steal_ns, 2 * 10 * VG_NS_PER_MS);
    assert_int_equal(cpu_at(cpus, 0)->wait_ns, 700);
    assert_int_equal(cpu_at(cpus, 1)->cpu, 2);
    assert_int_equal(cpu_at(cpus, 1)->node, 1);
    assert_int_equal(cpu_at(cpus, 1)->idle_ns, 0);
    assert_int_equal(cpu_at(cpus, 1)->wait_ns, -1);
    vg_host_cpus_parse_node("0-1,4,x", 3, nodes);
    assert_int_equal(g_hash_table_size(nodes), 3);
    vg_host_cpus_parse_node("0-99999999", 3, nodes);
    assert_int_equal(g_hash_table_size(nodes), VG_CPU_LIMIT);
    vg_host_cpus_parse("cpu0 1 2 3\ncpu-1 1 1 1 1 1 1 1 1\ncpu1 1 1 1 1 1 1 1 -1\n"
                       "cpu3 1 1 1 1 1 1 1 9223372036854775807\n",
                       NULL, VG_NS_PER_MS, cpus);
    assert_int_equal(cpus->len, 0);
    vg_host_cpus_clear(&state_of);
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
        FAKE_PROC_TEST(test_host_pressure),        FAKE_PROC_TEST(test_host_cpus),
        FAKE_PROC_TEST(test_host_contention),      FAKE_PROC_TEST(test_many_threads),
        cmocka_unit_test(test_real_proc),
    };
    return cmocka_run_group_tests_name("procfs", tests, NULL, NULL);
}
