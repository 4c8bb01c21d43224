/* SPDX-License-Identifier: Apache-2.0
 *
 * The half of the CPU ledger that follows events. It keeps two things consistent: each CPU knows
 * its holder, and a thread is in STATE_RUNNING on CPU c exactly if it is c's holder. Threads of VMs
 * that wait for a CPU are linked to it, and charged exactly whenever its holder changes.
 */
#include "config.h"

#include <string.h>

#include "ledger/cpu-ledger-private.h"

vg_cpu_ledger *
vg_cpu_ledger_new(vg_topology *topology)
{
    vg_cpu_ledger *ledger = g_new0(vg_cpu_ledger, 1);

    ledger->topology = topology;
    ledger->threads = g_ptr_array_new();
    ledger->cpus = g_new0(struct cpu, VG_CPU_LIMIT);
    for (int32_t i = 0; i < VG_CPU_LIMIT; i++)
        ledger->cpus[i].left_tid = VG_NONE;
    return ledger;
}

static void
cpu_thread_free(struct cpu_thread *thread)
{
    if (!thread)
        return;
    vg_lost_map_clear(&thread->lost);
    g_free(thread);
}

void
vg_cpu_ledger_free(vg_cpu_ledger *ledger)
{
    if (!ledger)
        return;
    for (unsigned int i = 0; i < ledger->threads->len; i++)
        cpu_thread_free(g_ptr_array_index(ledger->threads, i));
    g_ptr_array_unref(ledger->threads);
    g_free(ledger->cpus);
    g_free(ledger);
}

/* ---- time and blame ---- */

void
cpu_thread_account(struct cpu_thread *thread, int64_t now)
{
    int64_t span = now - thread->since;

    if (span <= 0)
        return;
    switch ((enum thread_state)thread->state) {
    case STATE_UNSEEN:
    case STATE_EXITED:
        return;
    case STATE_RUNNING:
        thread->total.run_ns += span;
        break;
    case STATE_WAIT_PREEMPT:
        thread->total.preempt_ns += span;
        break;
    case STATE_WAIT_WAKE:
        thread->total.wake_wait_ns += span;
        break;
    case STATE_UNKNOWN:
    case STATE_BLOCKED:
        thread->total.blocked_ns += span;
        break;
    }
    thread->total.observed_ns += span;
    thread->since = now;
}

/* Returns the holder of a CPU, as the key under which it is charged. */
static uint32_t
cpu_ledger_holder_of(struct vg_cpu_ledger *ledger, const struct cpu *cpu, bool *ret_is_vcpu)
{
    *ret_is_vcpu = false;
    if (!cpu->known)
        return VG_HOLDER_UNKNOWN;
    if (!cpu->thread)
        return VG_HOLDER_IDLE;
    const struct vg_thread *who = cpu->thread->who;
    struct vg_process *process = vg_thread_process(who);
    if (process->is_vm || process->maybe_vm) {
        *ret_is_vcpu = who->is_vcpu;
        return vg_topology_process_id(ledger->topology, process);
    }
    return who->kind == VG_THREAD_KERNEL ? VG_HOLDER_HOST_KERNEL : VG_HOLDER_HOST_USER;
}

static void
charge(struct cpu_thread *thread, uint32_t holder, bool is_vcpu, int64_t now)
{
    int64_t span = now - thread->charged;

    if (span <= 0)
        return;
    if (holder == VG_HOLDER_IDLE && thread->left_idle)
        holder = VG_HOLDER_LIMIT;
    struct vg_lost_entry *entry = vg_lost_map_entry(&thread->lost, holder);
    if (is_vcpu)
        entry->total.vcpu_ns += span;
    else
        entry->total.other_ns += span;
    thread->charged = now;
}

static void
cpu_charge_waiter(struct vg_cpu_ledger *ledger, struct cpu_thread *thread, int64_t now)
{
    static const struct cpu nowhere = {0};
    const struct cpu *cpu = thread->cpu == VG_NONE ? &nowhere : &ledger->cpus[thread->cpu];
    bool is_vcpu;

    if (now <= thread->charged)
        return;
    uint32_t holder = cpu_ledger_holder_of(ledger, cpu, &is_vcpu);
    charge(thread, holder, is_vcpu, now);
}

void
cpu_charge_waiters(struct vg_cpu_ledger *ledger, struct cpu *cpu, int64_t now)
{
    bool is_vcpu;

    if (!cpu->waiters)
        return;
    uint32_t holder = cpu_ledger_holder_of(ledger, cpu, &is_vcpu);
    for (struct cpu_thread *t = cpu->waiters; t; t = t->next_waiter)
        charge(t, holder, is_vcpu, now);
}

static void
link_waiter(struct vg_cpu_ledger *ledger, struct cpu_thread *thread)
{
    if (thread->cpu == VG_NONE)
        return;
    struct cpu *cpu = &ledger->cpus[thread->cpu];
    thread->next_waiter = cpu->waiters;
    thread->waiter_link = &cpu->waiters;
    if (cpu->waiters)
        cpu->waiters->waiter_link = &thread->next_waiter;
    cpu->waiters = thread;
}

static void
unlink_waiter(struct cpu_thread *thread)
{
    if (!thread->waiter_link)
        return;
    *thread->waiter_link = thread->next_waiter;
    if (thread->next_waiter)
        thread->next_waiter->waiter_link = thread->waiter_link;
    thread->next_waiter = NULL;
    thread->waiter_link = NULL;
}

static bool
cpu_ledger_is_waiting(const struct cpu_thread *thread)
{
    return thread->state == STATE_WAIT_PREEMPT || thread->state == STATE_WAIT_WAKE;
}

static void
leave_guest(struct cpu_thread *thread, int64_t now)
{
    if (!thread->in_guest)
        return;
    thread->total.guest_ns += now - thread->guest_since;
    thread->in_guest = false;
}

void
cpu_thread_set_state(struct vg_cpu_ledger *ledger, struct cpu_thread *thread,
                     enum thread_state state, int64_t now)
{
    cpu_thread_account(thread, now);
    thread->since = now;
    leave_guest(thread, now);
    if (thread->attributed) {
        cpu_charge_waiter(ledger, thread, now);
        unlink_waiter(thread);
        thread->attributed = false;
    }
    thread->left_idle = false;
    thread->state = (uint8_t)state;
}

static void
note_cpu(struct cpu_thread *thread, int32_t cpu)
{
    thread->cpu = cpu;
    if (cpu < 0)
        return;
    if (cpu < CPU_SET_MAX)
        thread->cpu_set[cpu / 64] |= UINT64_C(1) << (cpu % 64);
    else
        thread->beyond_cpu_set = true;
}

/* Returns whether the aggressors of a thread matter: it belongs to a VM, or may turn out to. */
static bool
is_worth_attributing(const struct cpu_thread *thread)
{
    const struct vg_process *process = vg_thread_process(thread->who);

    return process->is_vm || process->maybe_vm;
}

/* Returns until when a CPU's records are lost, so that it is unknown when a thread gets it. */
static int64_t
cpu_lost_until(const struct vg_cpu_ledger *ledger, int32_t cpu)
{
    return cpu < ledger->n_cpus ? ledger->cpus[cpu].lost_until : ledger->lost_until;
}

static bool
is_out_of_sight(const struct vg_cpu_ledger *ledger, int32_t cpu, int64_t now)
{
    return cpu != VG_NONE && now < cpu_lost_until(ledger, cpu);
}

static void
lose_sight(struct vg_cpu_ledger *ledger, struct cpu_thread *thread, int64_t until, int64_t now)
{
    cpu_thread_set_state(ledger, thread, STATE_UNKNOWN, now);
    thread->since = MAX(thread->since, until);
}

void
cpu_thread_wait(struct vg_cpu_ledger *ledger, struct cpu_thread *thread, enum thread_state kind,
                int32_t cpu, int64_t now)
{
    if (is_out_of_sight(ledger, cpu, now)) {
        lose_sight(ledger, thread, cpu_lost_until(ledger, cpu), now);
        thread->cpu = cpu;
        return;
    }
    cpu_thread_set_state(ledger, thread, kind, now);
    note_cpu(thread, cpu);
    thread->charged = now;
    thread->attributed = is_worth_attributing(thread);
    if (thread->attributed)
        link_waiter(ledger, thread);
}

/* ---- who holds which CPU ---- */

struct cpu_thread *
cpu_ledger_thread(struct vg_cpu_ledger *ledger, int32_t tid)
{
    struct vg_thread *who = vg_topology_thread(ledger->topology, tid);

    if (who->slot >= ledger->threads->len)
        g_ptr_array_set_size(ledger->threads, (int)who->slot + 1);
    struct cpu_thread *thread = g_ptr_array_index(ledger->threads, who->slot);
    if (!thread) {
        thread = g_new0(struct cpu_thread, 1);
        thread->who = who;
        thread->cpu = VG_NONE;
        g_ptr_array_index(ledger->threads, who->slot) = thread;
    }
    return thread;
}

void
cpu_set_holder(struct cpu *cpu, int32_t tid, struct cpu_thread *thread)
{
    cpu->known = true;
    cpu->tid = tid;
    cpu->thread = thread;
}

static void
set_holder_unknown(struct cpu *cpu)
{
    cpu->known = false;
    cpu->tid = 0;
    cpu->thread = NULL;
}

/* Handles a thread that appears on a CPU where the last records did not put it, so it is not where
 * it was thought to run. Returns whether that contradicts the known state. */
static bool
take_from_elsewhere(struct vg_cpu_ledger *ledger, struct cpu_thread *thread, int64_t now)
{
    if (thread->state == STATE_RUNNING) {
        struct cpu *other = &ledger->cpus[thread->cpu];
        cpu_charge_waiters(ledger, other, now);
        set_holder_unknown(other);
        return true;
    }
    return cpu_ledger_is_waiting(thread) || thread->state == STATE_BLOCKED;
}

void
cpu_thread_run(struct vg_cpu_ledger *ledger, struct cpu_thread *thread, int32_t cpu, int64_t now)
{
    if (thread->left_idle)
        cpu_limit_add_end(&thread->limit, now);
    thread->sight.asleep = false;
    cpu_thread_set_state(ledger, thread, STATE_RUNNING, now);
    note_cpu(thread, cpu);
}

/* Handles a record on CPU `index` by thread `tid`, which therefore runs there. */
static void
witness(struct vg_cpu_ledger *ledger, int32_t index, int32_t tid, int64_t now)
{
    struct cpu *cpu = &ledger->cpus[index];

    if (cpu->known && cpu->tid == tid)
        return;
    bool contradiction = cpu->known;
    cpu_charge_waiters(ledger, cpu, now);
    if (cpu->thread) {
        cpu_thread_set_state(ledger, cpu->thread, STATE_UNKNOWN, now);
        cpu_ledger_tell(ledger, cpu->thread, NULL, now);
    }
    if (tid == 0) {
        cpu_set_holder(cpu, 0, NULL);
    } else {
        struct cpu_thread *thread = cpu_ledger_thread(ledger, tid);
        contradiction |= take_from_elsewhere(ledger, thread, now);
        cpu_thread_run(ledger, thread, index, now);
        cpu_set_holder(cpu, tid, thread);
        cpu_ledger_tell(ledger, thread, NULL, now);
    }
    ledger->discontinuities += contradiction;
}

/* ---- events ---- */

static void
end_thread(struct vg_cpu_ledger *ledger, struct cpu_thread *thread, int64_t now)
{
    if (thread->state == STATE_RUNNING) {
        struct cpu *cpu = &ledger->cpus[thread->cpu];
        cpu_charge_waiters(ledger, cpu, now);
        set_holder_unknown(cpu);
    }
    cpu_thread_set_state(ledger, thread, STATE_EXITED, now);
    cpu_ledger_tell(ledger, thread, NULL, now);
    vg_topology_end(ledger->topology, thread->who);
}

static void
learn_comm(struct vg_cpu_ledger *ledger, struct cpu_thread *thread, const char *comm)
{
    if (memcmp(thread->who->comm, comm, VG_COMM_LEN) != 0)
        vg_topology_set_comm(ledger->topology, thread->who, comm);
}

static void
switch_out(struct vg_cpu_ledger *ledger, struct cpu_thread *prev, const struct vg_event *event,
           int64_t now)
{
    prev->total.switches_out++;
    switch ((enum vg_prev_state)event->sched_switch.prev_state) {
    case VG_PREV_RUNNABLE:
        prev->total.preemptions++;
        cpu_thread_wait(ledger, prev, STATE_WAIT_PREEMPT, event->cpu, now);
        prev->left_idle = prev->attributed && event->sched_switch.next_tid == 0;
        prev->limit.any |= prev->left_idle;
        break;
    case VG_PREV_BLOCKED:
        prev->total.blocks++;
        cpu_thread_set_state(ledger, prev, STATE_BLOCKED, now);
        cpu_sight_sleep(&prev->sight, now);
        break;
    case VG_PREV_EXITED:
        prev->total.blocks++;
        cpu_thread_set_state(ledger, prev, STATE_EXITED, now);
        vg_topology_end(ledger->topology, prev->who);
        break;
    }
}

static struct cpu_thread *
switch_in(struct vg_cpu_ledger *ledger, const struct vg_event *event, int64_t now)
{
    struct cpu_thread *next = cpu_ledger_thread(ledger, event->sched_switch.next_tid);

    learn_comm(ledger, next, event->sched_switch.next_comm);
    if (next->state == STATE_RUNNING) {
        take_from_elsewhere(ledger, next, now);
        ledger->discontinuities++;
    } else if (cpu_ledger_is_waiting(next) && next->cpu != VG_NONE && next->cpu != event->cpu) {
        next->total.unseen_migrations++;
    }
    cpu_sight_wake(&ledger->sight, &next->sight, false);
    cpu_thread_run(ledger, next, event->cpu, now);
    return next;
}

static void
on_switch(struct vg_cpu_ledger *ledger, const struct vg_event *event, int64_t now)
{
    struct cpu *cpu = &ledger->cpus[event->cpu];
    bool is_vcpu;

    cpu->lost_until = 0;
    cpu->left_tid = event->sched_switch.prev_tid;
    witness(ledger, event->cpu, event->sched_switch.prev_tid, now);
    struct cpu_thread *prev = cpu->thread;
    cpu_sight_leave(&ledger->sight, prev ? &prev->sight : NULL);
    /* prev must be known before others are charged for it. */
    if (prev) {
        learn_comm(ledger, prev, event->sched_switch.prev_comm);
        if (event->pid > 0 && event->tid == event->sched_switch.prev_tid)
            vg_topology_set_process(ledger->topology, prev->who, event->pid);
    }
    cpu_charge_waiters(ledger, cpu, now);
    if (prev) {
        set_holder_unknown(cpu);
        switch_out(ledger, prev, event, now);
    }
    if (event->sched_switch.next_tid == 0)
        cpu_set_holder(cpu, 0, NULL);
    else
        cpu_set_holder(cpu, event->sched_switch.next_tid, switch_in(ledger, event, now));
    cpu_sight_come(&ledger->sight, cpu->thread ? &cpu->thread->sight : NULL, event->cpu, now);
    if (prev && prev != cpu->thread)
        cpu_ledger_tell(ledger, prev, cpu, now);
    if (cpu->thread)
        cpu_ledger_tell(ledger, cpu->thread, NULL, now);
    if (prev && event->sched_switch.prev_state == VG_PREV_RUNNABLE && is_worth_attributing(prev)) {
        uint32_t holder =
            prev->left_idle ? VG_HOLDER_LIMIT : cpu_ledger_holder_of(ledger, cpu, &is_vcpu);
        vg_lost_map_entry(&prev->lost, holder)->total.count++;
    }
}

static void
on_wakeup(struct vg_cpu_ledger *ledger, const struct vg_event *event, int64_t now)
{
    if (event->wakeup.tid == 0)
        return;
    struct cpu_thread *thread = cpu_ledger_thread(ledger, event->wakeup.tid);
    learn_comm(ledger, thread, event->wakeup.comm);
    if (thread->state == STATE_RUNNING || cpu_ledger_is_waiting(thread))
        return;
    thread->total.wakeups++;
    cpu_sight_wake(&ledger->sight, &thread->sight, true);
    int32_t cpu = event->wakeup.target_cpu == VG_NONE ? thread->cpu : event->wakeup.target_cpu;
    cpu_thread_wait(ledger, thread, STATE_WAIT_WAKE, cpu, now);
    cpu_ledger_tell(ledger, thread, NULL, now);
}

static void
on_migrate(struct vg_cpu_ledger *ledger, const struct vg_event *event, int64_t now)
{
    if (event->migrate.tid == 0)
        return;
    struct cpu_thread *thread = cpu_ledger_thread(ledger, event->migrate.tid);
    learn_comm(ledger, thread, event->migrate.comm);
    if (thread->state == STATE_RUNNING) {
        ledger->discontinuities++;
        return;
    }
    if (cpu_ledger_is_waiting(thread) && is_out_of_sight(ledger, event->migrate.dest_cpu, now)) {
        lose_sight(ledger, thread, cpu_lost_until(ledger, event->migrate.dest_cpu), now);
        cpu_ledger_tell(ledger, thread, NULL, now);
    }
    if (!thread->attributed) {
        thread->cpu = event->migrate.dest_cpu;
        return;
    }
    cpu_charge_waiter(ledger, thread, now);
    unlink_waiter(thread);
    note_cpu(thread, event->migrate.dest_cpu);
    link_waiter(ledger, thread);
}

static void
on_kvm(struct vg_cpu_ledger *ledger, const struct vg_event *event, int64_t now)
{
    struct cpu_thread *thread = NULL;

    if (event->cpu >= 0)
        thread = ledger->cpus[event->cpu].thread;
    else if (event->tid > 0)
        thread = cpu_ledger_thread(ledger, event->tid);
    if (!thread || thread->state != STATE_RUNNING)
        return;
    learn_comm(ledger, thread, event->kvm.comm);
    if (!thread->who->is_vcpu)
        cpu_ledger_learn_vcpu(ledger, thread);
    if (event->type == VG_EVENT_KVM_ENTRY) {
        thread->total.entries++;
        /* Two entries without an exit in between are one stay. */
        ledger->discontinuities += thread->in_guest;
        if (!thread->in_guest)
            thread->guest_since = now;
        thread->in_guest = true;
    } else {
        thread->total.exits[event->kvm.exit_class]++;
        leave_guest(thread, now);
    }
    cpu_ledger_tell(ledger, thread, NULL, now);
}

static void
on_process(struct vg_cpu_ledger *ledger, const struct vg_event *event, int64_t now)
{
    struct vg_thread *known = vg_topology_find(ledger->topology, event->process.tid);

    if (event->process.tid == 0)
        return;
    if (known && event->type != VG_EVENT_PROCESS)
        end_thread(ledger, cpu_ledger_thread(ledger, event->process.tid), now);
    if (event->type == VG_EVENT_PROCESS_END)
        return;
    struct cpu_thread *thread = cpu_ledger_thread(ledger, event->process.tid);
    learn_comm(ledger, thread, event->process.comm);
    vg_topology_set_kind(ledger->topology, thread->who, event->process.kind);
    vg_topology_set_process(ledger->topology, thread->who, event->process.pid);
}

static void
on_lost(struct vg_cpu_ledger *ledger, const struct vg_event *event, int64_t now)
{
    bool all = event->cpu < 0 && event->lost.any_cpu;
    int32_t first = all ? 0 : event->cpu, end = all ? ledger->n_cpus : event->cpu + 1;

    ledger->lost_events += event->lost.events;
    ledger->lost_packets += event->lost.packets;
    cpu_sight_lose(&ledger->sight, now, event->lost.end_ns);
    if (event->cpu < 0 && !all)
        return;
    if (all)
        ledger->lost_until = MAX(ledger->lost_until, event->lost.end_ns);
    for (int32_t i = first; i < end; i++) {
        struct cpu *cpu = &ledger->cpus[i];
        cpu_charge_waiters(ledger, cpu, now);
        set_holder_unknown(cpu);
        cpu->lost_until = MAX(cpu->lost_until, event->lost.end_ns);
    }
    for (unsigned int i = 0; i < ledger->threads->len; i++) {
        struct cpu_thread *thread = g_ptr_array_index(ledger->threads, i);
        if (!thread || (!all && thread->cpu != event->cpu) || thread->state == STATE_UNSEEN ||
            thread->state == STATE_EXITED)
            continue;
        int64_t until = MAX(thread->since, event->lost.end_ns);
        if (thread->state == STATE_BLOCKED) {
            cpu_thread_account(thread, now);
            thread->since = MAX(thread->since, until);
        } else {
            lose_sight(ledger, thread, until, now);
            cpu_ledger_tell(ledger, thread, NULL, now);
        }
    }
}

/* Returns whether the old thread still writes records between sched_switch and the switch itself:
 * of a change of the address space, or the call stack of sched_switch. */
static bool
may_be_outdated(const struct vg_cpu_ledger *ledger, const struct vg_event *event)
{
    if ((event->type != VG_EVENT_OTHER && event->type != VG_EVENT_GPU) || event->cpu < 0)
        return false;
    const struct cpu *cpu = &ledger->cpus[event->cpu];
    return cpu->known && cpu->tid != event->tid && cpu->left_tid == event->tid;
}

/* Uses an event's context: the thread that it names wrote the event, and runs on that CPU. */
static void
learn_context(struct vg_cpu_ledger *ledger, const struct vg_event *event, int64_t now)
{
    if (event->tid < 0 || may_be_outdated(ledger, event))
        return;
    if (event->cpu >= 0)
        witness(ledger, event->cpu, event->tid, now);
    if (event->tid > 0 && event->pid > 0) {
        struct cpu_thread *thread = event->cpu >= 0 ? ledger->cpus[event->cpu].thread
                                                    : cpu_ledger_thread(ledger, event->tid);
        vg_topology_set_process(ledger->topology, thread->who, event->pid);
    }
}

static int64_t
cpu_ledger_advance(struct vg_cpu_ledger *ledger, int64_t ts_ns)
{
    if (!ledger->begun)
        vg_cpu_ledger_begin(ledger, ts_ns);
    if (ts_ns < ledger->now)
        ledger->discontinuities++;
    else
        ledger->now = ts_ns;
    return ledger->now;
}

void
vg_cpu_ledger_feed(vg_cpu_ledger *ledger, const struct vg_event *event)
{
    int64_t now = cpu_ledger_advance(ledger, event->ts_ns);
    while (G_UNLIKELY(event->cpu >= ledger->n_cpus))
        ledger->cpus[ledger->n_cpus++].lost_until = ledger->lost_until;
    enum vg_event_type type = (enum vg_event_type)event->type;

    if (type != VG_EVENT_SCHED_SWITCH && type != VG_EVENT_LOST)
        learn_context(ledger, event, now);
    switch (type) {
    case VG_EVENT_SCHED_SWITCH:
        if (event->cpu >= 0)
            on_switch(ledger, event, now);
        break;
    case VG_EVENT_SCHED_WAKING:
        if (ledger->use_waking)
            on_wakeup(ledger, event, now);
        break;
    case VG_EVENT_SCHED_WAKEUP:
        on_wakeup(ledger, event, now);
        break;
    case VG_EVENT_SCHED_MIGRATE:
        on_migrate(ledger, event, now);
        break;
    case VG_EVENT_KVM_ENTRY:
    case VG_EVENT_KVM_EXIT:
        on_kvm(ledger, event, now);
        break;
    case VG_EVENT_PROCESS:
    case VG_EVENT_PROCESS_FORK:
    case VG_EVENT_PROCESS_END:
        on_process(ledger, event, now);
        break;
    case VG_EVENT_LOST:
        on_lost(ledger, event, now);
        break;
    case VG_EVENT_GPU:
    case VG_EVENT_OTHER:
    case VG_EVENT_TYPE_MAX:
        break;
    }
}

/* ---- periods ---- */

void
cpu_ledger_settle(struct vg_cpu_ledger *ledger, int64_t now)
{
    for (unsigned int i = 0; i < ledger->threads->len; i++) {
        struct cpu_thread *thread = g_ptr_array_index(ledger->threads, i);
        if (!thread)
            continue;
        cpu_thread_account(thread, now);
        if (thread->attributed)
            cpu_charge_waiter(ledger, thread, now);
        if (thread->in_guest) {
            thread->total.guest_ns += now - thread->guest_since;
            thread->guest_since = now;
        }
    }
}

static void
restart_thread(struct cpu_thread *thread)
{
    thread->total = thread->closed = (struct vg_cpu_figures){0};
    vg_lost_map_clear(&thread->lost);
    memset(thread->cpu_set, 0, sizeof(thread->cpu_set));
    thread->beyond_cpu_set = false;
    thread->sight.sleeps = (struct vg_cpu_sleeps){0};
    thread->begin_clips = thread->window_clips = cpu_thread_open_intervals(thread);
    if (thread->begin_clips > 0)
        note_cpu(thread, thread->cpu);
}

void
vg_cpu_ledger_begin(vg_cpu_ledger *ledger, int64_t t_ns)
{
    if (!ledger->begun || t_ns > ledger->now)
        ledger->now = t_ns;
    ledger->begun = true;
    cpu_ledger_settle(ledger, ledger->now);
    for (unsigned int i = 0; i < ledger->threads->len; i++) {
        struct cpu_thread *thread = g_ptr_array_index(ledger->threads, i);
        if (thread)
            restart_thread(thread);
    }
    ledger->period_begin = ledger->window_begin = ledger->now;
    ledger->discontinuities = ledger->discontinuities_closed = 0;
    ledger->lost_events = ledger->lost_events_closed = 0;
    ledger->lost_packets = ledger->lost_packets_closed = 0;
    ledger->sight.sleeps = (struct vg_cpu_sleeps){0};
}
