/* SPDX-License-Identifier: Apache-2.0
 *
 * How fast the CPU ledger alone is: events made beforehand in memory, a host with VMs that share
 * CPUs, fed on one core. Prints one line.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ledger/cpu-ledger.h"

#define CPUS         8
#define VMS          16
#define VCPUS        2
#define THREADS      (VMS * (VCPUS + 1))
#define EVENTS       2000000
#define DEFAULT_RUNS 5

struct host {
    struct vg_event *events;
    size_t n;
    int64_t now;
    uint64_t random;
};

static uint32_t
pick(struct host *host, uint32_t below)
{
    host->random = host->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(host->random >> 33) % below;
}

static int32_t
pid_of(uint32_t thread)
{
    return (int32_t)(1000 + 10 * (thread / (VCPUS + 1)));
}

static int32_t
tid_of(uint32_t thread)
{
    return pid_of(thread) + (int32_t)(thread % (VCPUS + 1));
}

static bool
is_vcpu(uint32_t thread)
{
    return thread % (VCPUS + 1) != 0;
}

static void
name_of(uint32_t thread, char *comm)
{
    memset(comm, 0, VG_COMM_LEN);
    if (is_vcpu(thread))
        snprintf(comm, VG_COMM_LEN, "CPU %u/KVM", thread % (VCPUS + 1) - 1);
    else
        memcpy(comm, "qemu-system-x86", VG_COMM_LEN);
}

static struct vg_event *
add(struct host *host, enum vg_event_type type, int cpu, uint32_t thread)
{
    struct vg_event *event = &host->events[host->n++];

    host->now += 500 + pick(host, 1000);
    *event = (struct vg_event){
        .ts_ns = host->now,
        .type = (uint16_t)type,
        .cpu = (int16_t)cpu,
        .tid = tid_of(thread),
        .pid = pid_of(thread),
    };
    return event;
}

/* Each CPU has its own threads and goes round them; a vCPU enters and leaves its guest, then is
 * preempted or sleeps until it is woken. About 4 events in 10 are kvm events. */
static void
make_events(struct host *host)
{
    uint32_t current[CPUS];

    for (uint32_t cpu = 0; cpu < CPUS; cpu++)
        current[cpu] = cpu;
    while (host->n + 8 < EVENTS) {
        uint32_t cpu = pick(host, CPUS);
        uint32_t prev = current[cpu];
        uint32_t next = (prev + CPUS) % THREADS;
        if (is_vcpu(prev)) {
            add(host, VG_EVENT_KVM_ENTRY, (int)cpu, prev);
            add(host, VG_EVENT_KVM_EXIT, (int)cpu, prev)->kvm.exit_class = VG_EXIT_INTERRUPT;
        }
        struct vg_event *wakeup = add(host, VG_EVENT_SCHED_WAKEUP, (int)cpu, prev);
        wakeup->wakeup.tid = tid_of(next);
        wakeup->wakeup.target_cpu = (int)cpu;
        name_of(next, wakeup->wakeup.comm);
        struct vg_event *event = add(host, VG_EVENT_SCHED_SWITCH, (int)cpu, prev);
        event->sched_switch.prev_tid = tid_of(prev);
        event->sched_switch.next_tid = tid_of(next);
        event->sched_switch.prev_state = pick(host, 3) ? VG_PREV_RUNNABLE : VG_PREV_BLOCKED;
        name_of(prev, event->sched_switch.prev_comm);
        name_of(next, event->sched_switch.next_comm);
        current[cpu] = next;
    }
}

static double
seconds(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static double
run(const struct host *host)
{
    g_autoptr(vg_topology) topology = vg_topology_new();
    g_autoptr(vg_cpu_ledger) ledger = vg_cpu_ledger_new(topology);
    struct vg_window window;
    double begin = seconds();

    for (size_t i = 0; i < host->n; i++)
        vg_cpu_ledger_feed(ledger, &host->events[i]);
    vg_cpu_ledger_read_period(ledger, host->now, false, &window);
    double spent = seconds() - begin;
    if (window.vms->len != VMS || window.discontinuities > 0)
        fprintf(stderr, "bench-ledger: %u VMs, %" G_GUINT64_FORMAT " discontinuities\n",
                window.vms->len, window.discontinuities);
    vg_window_clear(&window);
    return spent;
}

int
main(int argc, char **argv)
{
    int runs = argc > 1 ? atoi(argv[1]) : DEFAULT_RUNS;
    struct host host = {.events = g_new0(struct vg_event, EVENTS), .random = 1};
    double best = 0;

    make_events(&host);
    for (int i = 0; i < runs; i++) {
        double spent = run(&host);
        if (best == 0 || spent < best)
            best = spent;
    }
    printf("cpu-ledger: %zu events in %.3f s = %.1f M/s\n", host.n, best,
           (double)host.n / best / 1e6);
    g_free(host.events);
    return 0;
}
