/* SPDX-License-Identifier: Apache-2.0
 *
 * Hours of a busy host on virtual time: VMs start and stop, their thread ids come back as others'
 * (of the host, too), and every second a window goes through gather and engine. At each moment just
 * the VMs are there that live, and memory does not grow.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/gather.h"
#include "policy/policy-conf.h"
#include "tests/unit/chance.h"
#include "tests/unit/ledger-host.h"
#include "tests/unit/used-bytes.h"

#define S         VG_NS_PER_S
#define VMS       12
#define VCPUS     2
#define CPUS      2
#define VM_LIFE_S 60 /* one of the VMs is replaced every VM_LIFE_S / VMS seconds */
#define TIDS_FROM 1000
#define TIDS_TO   1400 /* so few that all come back again and again */
/* The memory of VMs that left still grows in the first hours, up to a limit for each of the last
 * VG_SNAPSHOT_DEPARTED_MAX. */
#define GROWTH_MAX     (48 * 1024)
#define DEPARTED_BYTES 600
#define DEPARTED_H     3
#define LEAVE_S        70 /* gather and engine remember who left for 64 windows */
#define HOST_THREADS_S 5  /* short-lived threads of the host in a second */

struct vm {
    int32_t pid; /* of its main thread; the vCPUs follow */
    char uuid[VG_UUID_LEN];
};

struct day {
    struct host host;
    vg_gather *gather;
    vg_engine *engine;
    unsigned source;
    struct vm vms[VMS];
    uint8_t tid_used[TIDS_TO];
    int32_t next_tid;
    uint32_t started;
};

/* Free thread ids in a row, as far on as the kernel's counter is. */
static int32_t
take_tids(struct day *d, int32_t n)
{
    for (;;) {
        int32_t first = d->next_tid;
        int32_t got = 0;
        if (first + n > TIDS_TO) {
            d->next_tid = TIDS_FROM;
            continue;
        }
        while (got < n && !d->tid_used[first + got])
            got++;
        d->next_tid = first + MAX(got, 1);
        if (got < n)
            continue;
        memset(&d->tid_used[first], 1, (size_t)n);
        return first;
    }
}

static void
start_vm(struct day *d, struct vm *vm)
{
    char name[32];

    vm->pid = take_tids(d, 1 + VCPUS);
    g_snprintf(name, sizeof(name), "vm-%u", d->started);
    g_snprintf(vm->uuid, sizeof(vm->uuid), "6f5a1e00-0000-4000-8000-%012u", d->started++);
    for (int32_t i = 0; i <= VCPUS; i++) {
        const struct vg_declared_thread told = {.tid = vm->pid + i,
                                                .pid = vm->pid,
                                                .name = name,
                                                .uuid = vm->uuid,
                                                .is_vcpu = i > 0,
                                                .vcpu_index = i > 0 ? i - 1 : VG_NONE};
        vg_topology_declare(d->host.topology, &told);
    }
}

/* Each thread has its last switch, some CPU having gone idle before. */
static void
stop_vm(struct day *d, const struct vm *vm, int64_t t)
{
    for (int32_t tid = vm->pid; tid <= vm->pid + VCPUS; tid++) {
        feed_switch(&d->host, t, 0, 0, VG_PREV_RUNNABLE, tid);
        feed_switch(&d->host, t, 0, tid, VG_PREV_EXITED, 0);
        d->tid_used[tid] = 0;
    }
}

static void
host_thread(struct day *d, int64_t t)
{
    int32_t tid = take_tids(d, 1);

    feed_process(&d->host, t, tid, 1, "worker");
    feed_switch(&d->host, t, 1, 0, VG_PREV_RUNNABLE, tid);
    feed_switch(&d->host, t, 1, tid, VG_PREV_EXITED, 0);
    d->tid_used[tid] = 0;
}

/* In a second each vCPU is woken, waits for the one before, runs and sleeps again. */
static void
work(struct day *d, int64_t t)
{
    int32_t on[CPUS] = {0};

    for (unsigned i = 0; i < VMS; i++) {
        for (int32_t k = 0; k < VCPUS; k++) {
            int32_t tid = d->vms[i].pid + 1 + k;
            int cpu = (int)(i + (unsigned)k) % CPUS;
            feed_wakeup(&d->host, t, VG_EVENT_SCHED_WAKEUP, tid, cpu);
            t += 20 * VG_NS_PER_MS / VMS;
            feed_switch(&d->host, t, cpu, on[cpu], VG_PREV_BLOCKED, tid);
            on[cpu] = tid;
        }
    }
    for (int cpu = 0; cpu < CPUS; cpu++)
        feed_switch(&d->host, t, cpu, on[cpu], VG_PREV_BLOCKED, 0);
}

static void
check_vms(const struct day *d, const struct vg_window *window)
{
    assert_int_equal(window->vms->len, VMS);
    for (unsigned i = 0; i < VMS; i++) {
        const struct vg_vm_sample *vm = vm_in(window, d->vms[i].pid);
        assert_string_equal(vm->uuid, d->vms[i].uuid);
        assert_int_equal(vm->vcpus->len, VCPUS);
        assert_true(vm->cpu.run_ns > 0);
        assert_int_equal(vm->cpu.run_ns + vm->cpu.preempt_ns + vm->cpu.wake_wait_ns +
                             vm->cpu.blocked_ns,
                         vm->cpu.observed_ns);
    }
}

static void
close_window(struct day *d, int64_t t, bool quiet)
{
    const struct vg_provenance provenance = {.confidence = 1};
    struct vg_window window;
    struct vg_gathered gathered;

    vg_cpu_ledger_close_window(d->host.ledger, t, false, &window);
    if (quiet)
        check_vms(d, &window);
    assert_int_equal(vg_gather_put(d->gather, d->source, &window, &provenance, 0), VG_GATHER_TAKEN);
    assert_true(vg_gather_next(d->gather, t, &gathered));
    vg_engine_step(d->engine, &gathered.window, "host");
    vg_window_clear(&gathered.window);
}

/* Of the engine, which remembers for a while who left. */
static void
check_snapshot(const struct day *d)
{
    const struct vg_engine_part part = {.source = VG_SOURCE_LIVE};
    g_autoptr(vg_snapshot) description = vg_snapshot_new(part.source);
    const struct vg_snap_host *const hosts[] = {vg_snapshot_add_host(description, "host")};
    g_autoptr(vg_snapshot) snapshot = vg_engine_snapshot(d->engine, &part, hosts, 1, NULL);

    assert_non_null(snapshot);
    const struct vg_snap_host *host = snapshot->hosts->pdata[0];
    assert_in_range(host->vms->len, VMS, VMS + LEAVE_S * VMS / VM_LIFE_S + 1);
}

static void
live(struct day *d, int64_t hours)
{
    size_t early = 0;
    unsigned replaced = 0;

    for (int64_t second = 1; second <= hours * 3600; second++) {
        int64_t t = second * S;
        bool change = second % (VM_LIFE_S / VMS) == 0;
        if (change) {
            struct vm *vm = &d->vms[replaced++ % VMS];
            stop_vm(d, vm, t);
            start_vm(d, vm);
        }
        for (unsigned i = 0; i < HOST_THREADS_S; i++)
            host_thread(d, t);
        work(d, t);
        close_window(d, t + S - 1, !change);
        if (second % 3600 == 0)
            check_snapshot(d);
        if (second == hours * 1800)
            early = used_bytes();
    }
    size_t late = used_bytes();
    print_message("# %u VMs started, %zu KiB in use half-way, %zu KiB after %d h\n", d->started,
                  early / 1024, late / 1024, (int)hours);
    size_t departed = hours < DEPARTED_H ? VG_SNAPSHOT_DEPARTED_MAX * DEPARTED_BYTES : 0;
    assert_true(late <= early + GROWTH_MAX + departed);
    assert_in_range(vg_topology_thread_count(d->host.topology), VMS * (1 + VCPUS), 200);
}

static void
test_hours_of_churn(void **state)
{
    struct vg_policy_config config;
    struct day *d = g_new0(struct day, 1);

    (void)state;
    vg_policy_config_init(&config);
    d->host.topology = vg_topology_new();
    vg_topology_only_declared(d->host.topology);
    d->host.ledger = vg_cpu_ledger_new(d->host.topology);
    vg_cpu_ledger_windows_only(d->host.ledger, true);
    d->gather = vg_gather_new(S);
    d->source = vg_gather_add_source(d->gather);
    d->engine = vg_engine_new(&config, VG_ENGINE_LIVE);
    d->next_tid = TIDS_FROM;
    vg_cpu_ledger_begin(d->host.ledger, 0);
    for (unsigned i = 0; i < VMS; i++)
        start_vm(d, &d->vms[i]);
    live(d, chance_rounds(1, 24));
    vg_engine_free(d->engine);
    vg_gather_free(d->gather);
    vg_cpu_ledger_free(d->host.ledger);
    vg_topology_free(d->host.topology);
    g_free(d);
}

int
main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hours_of_churn)};

    return cmocka_run_group_tests_name("churn", tests, NULL, NULL);
}
