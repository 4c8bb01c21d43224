/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/unit/ledger-host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void
feed_process(struct host *h, int64_t t, int32_t tid, int32_t pid, const char *comm)
{
    struct vg_event e = {.ts_ns = t, .type = VG_EVENT_PROCESS, .cpu = VG_NONE};
    e.tid = e.pid = VG_NONE;
    e.process.tid = tid;
    e.process.pid = pid;
    g_strlcpy(e.process.comm, comm, VG_COMM_LEN);
    vg_cpu_ledger_feed(h->ledger, &e);
}

int
host_setup(void **state)
{
    struct host *h = g_new0(struct host, 1);
    h->topology = vg_topology_new();
    h->ledger = vg_cpu_ledger_new(h->topology);
    feed_process(h, 0, 10, 10, "qemu-system-x86");
    feed_process(h, 0, 11, 10, "CPU 0/KVM");
    feed_process(h, 0, 12, 10, "CPU 1/KVM");
    feed_process(h, 0, 13, 10, "IO iothread1");
    feed_process(h, 0, 20, 20, "qemu-system-x86");
    feed_process(h, 0, 21, 20, "CPU 0/KVM");
    feed_process(h, 0, 30, 30, "kworker/0:1");
    feed_process(h, 0, 40, 40, "make");
    feed_process(h, 0, 41, 41, "make");
    *state = h;
    return 0;
}

int
host_teardown(void **state)
{
    struct host *h = *state;
    vg_cpu_ledger_free(h->ledger);
    vg_topology_free(h->topology);
    g_free(h);
    return 0;
}

/* ---- records ---- */

void
feed(struct host *h, int64_t t, enum vg_event_type type, int cpu, int32_t tid)
{
    struct vg_event e = {.ts_ns = t, .type = (uint16_t)type, .cpu = (int16_t)cpu, .tid = tid};
    e.pid = VG_NONE;
    if (type == VG_EVENT_KVM_EXIT)
        e.kvm.exit_class = VG_EXIT_HLT;
    vg_cpu_ledger_feed(h->ledger, &e);
}

void
feed_switch(struct host *h, int64_t t, int cpu, int32_t prev, enum vg_prev_state state,
            int32_t next)
{
    struct vg_event e = {.ts_ns = t, .type = VG_EVENT_SCHED_SWITCH, .cpu = (int16_t)cpu};
    e.tid = prev;
    e.pid = VG_NONE;
    e.sched_switch.prev_tid = prev;
    e.sched_switch.prev_state = (uint8_t)state;
    e.sched_switch.next_tid = next;
    vg_cpu_ledger_feed(h->ledger, &e);
}

void
feed_wakeup(struct host *h, int64_t t, enum vg_event_type type, int32_t tid, int target_cpu)
{
    struct vg_event e = {.ts_ns = t, .type = (uint16_t)type, .cpu = VG_NONE};
    e.tid = e.pid = VG_NONE;
    e.wakeup.tid = tid;
    e.wakeup.target_cpu = target_cpu;
    vg_cpu_ledger_feed(h->ledger, &e);
}

void
feed_migrate(struct host *h, int64_t t, int32_t tid, int dest_cpu)
{
    struct vg_event e = {.ts_ns = t, .type = VG_EVENT_SCHED_MIGRATE, .cpu = VG_NONE};
    e.tid = e.pid = VG_NONE;
    e.migrate.tid = tid;
    e.migrate.orig_cpu = VG_NONE;
    e.migrate.dest_cpu = dest_cpu;
    vg_cpu_ledger_feed(h->ledger, &e);
}

void
feed_loss(struct host *h, int64_t t, int64_t end, int cpu)
{
    struct vg_event e = {.ts_ns = t, .type = VG_EVENT_LOST, .cpu = (int16_t)cpu};
    e.tid = e.pid = VG_NONE;
    e.lost.end_ns = end;
    e.lost.events = 7;
    e.lost.packets = 1;
    vg_cpu_ledger_feed(h->ledger, &e);
}

/* ---- expectations ---- */

struct vg_cpu_figures
task_in(const struct vg_window *w, int32_t tid)
{
    struct vg_cpu_figures none = {0};
    for (unsigned i = 0; i < w->tasks->len; i++) {
        const struct vg_task_sample *task = &g_array_index(w->tasks, struct vg_task_sample, i);
        if (task->tid == tid)
            return task->cpu;
    }
    return none;
}

const struct vg_vm_sample *
vm_in(const struct vg_window *w, int32_t pid)
{
    for (unsigned i = 0; i < w->vms->len; i++) {
        const struct vg_vm_sample *vm = &g_array_index(w->vms, struct vg_vm_sample, i);
        if (vm->pid == pid)
            return vm;
    }
    fail_msg("no VM with pid %d", pid);
    abort(); /* not reached */
}

struct vg_lost_to
lost_in(const struct vg_window *w, int32_t victim_pid, enum vg_aggressor_kind kind, int32_t pid)
{
    struct vg_lost_to none = {.kind = kind};
    const struct vg_vm_sample *vm = vm_in(w, victim_pid);
    for (unsigned i = 0; i < vm->lost_to->len; i++) {
        const struct vg_lost_to *lost = &g_array_index(vm->lost_to, struct vg_lost_to, i);
        if (lost->kind == kind && (kind != VG_AGGRESSOR_VM || lost->vm_id == vm_in(w, pid)->id))
            return *lost;
    }
    return none;
}

int64_t
lost_sum(const struct vg_window *w, int32_t pid)
{
    int64_t sum = 0;
    const struct vg_vm_sample *vm = vm_in(w, pid);
    for (unsigned i = 0; i < vm->lost_to->len; i++)
        sum += g_array_index(vm->lost_to, struct vg_lost_to, i).ns;
    return sum;
}

void
expect_times(const struct vg_cpu_figures *f, int64_t run, int64_t preempt, int64_t wake_wait,
             int64_t blocked)
{
    assert_int_equal(f->run_ns, run);
    assert_int_equal(f->preempt_ns, preempt);
    assert_int_equal(f->wake_wait_ns, wake_wait);
    assert_int_equal(f->blocked_ns, blocked);
    assert_int_equal(f->observed_ns, run + preempt + wake_wait + blocked);
}

void
expect_task(struct host *h, int64_t t, int32_t tid, int64_t run, int64_t preempt, int64_t wake_wait,
            int64_t blocked)
{
    struct vg_window w = {0};
    vg_cpu_ledger_read_period(h->ledger, t, true, &w);
    struct vg_cpu_figures f = task_in(&w, tid);
    expect_times(&f, run, preempt, wake_wait, blocked);
    vg_window_clear(&w);
}

uint64_t
discontinuities_at(struct host *h, int64_t t)
{
    struct vg_window w = {0};
    vg_cpu_ledger_read_period(h->ledger, t, false, &w);
    uint64_t n = w.discontinuities;
    vg_window_clear(&w);
    return n;
}
