/* SPDX-License-Identifier: Apache-2.0
 *
 * The half of the CPU ledger that converts its counters to window samples. The same code reads a
 * window and the whole period. They differ in what is subtracted.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "ledger/cpu-ledger-private.h"

void
vg_cpu_ledger_use_waking(vg_cpu_ledger *ledger, bool use)
{
    ledger->use_waking = use;
}

void
vg_cpu_ledger_windows_only(vg_cpu_ledger *ledger, bool windows_only)
{
    ledger->windows_only = windows_only;
}

void
vg_cpu_ledger_keep_tasks(vg_cpu_ledger *ledger, bool keep)
{
    ledger->keep_tasks = keep;
}

void
vg_cpu_ledger_judge_wakeups(vg_cpu_ledger *ledger, bool judge)
{
    ledger->judge_wakeups = judge;
}

void
vg_cpu_ledger_read_sight(const vg_cpu_ledger *ledger, struct vg_cpu_sight *ret)
{
    *ret = (struct vg_cpu_sight){
        .sleeps = ledger->sight.sleeps,
        .switches = ledger->sight.switches,
        .never_left = ledger->sight.never_left,
        .cpus = ledger->n_cpus,
    };
}

/* One reading in progress. */
struct reading {
    struct vg_cpu_ledger *ledger;
    struct vg_window *window;
    bool whole_period;           /* otherwise since the last closed window */
    GHashTable *vms;             /* process id -> struct vm_build */
    bool has_entries, has_exits; /* kvm_entry or kvm_exit was recorded: guest time needs both */
};

/* A VM sample that is being built. */
struct vm_build {
    struct vg_vm_sample sample;
    GHashTable *lost; /* holder -> struct vg_lost_to, owned */
    struct vg_cpu_sleeps sleeps;
    uint64_t cpu_set[CPU_SET_WORDS];
    bool beyond_cpu_set;
};

static void
vm_build_free(void *data)
{
    struct vm_build *build = data;

    g_hash_table_unref(build->lost);
    g_free(build);
}

static struct vg_cpu_figures
cpu_ledger_read_figures_of(const struct reading *reading, const struct cpu_thread *thread)
{
    struct vg_cpu_figures figures = thread->total;

    if (!reading->whole_period)
        vg_cpu_figures_sub(&figures, &thread->closed);
    figures.clipped = reading->whole_period ? thread->begin_clips : thread->window_clips;
    figures.clipped += cpu_thread_open_intervals(thread);
    return figures;
}

static struct vm_build *
vm_build_of(struct reading *reading, struct vg_process *process)
{
    struct vm_build *build = g_hash_table_lookup(reading->vms, GUINT_TO_POINTER(process->id));

    if (build)
        return build;
    build = g_new0(struct vm_build, 1);
    build->lost = g_hash_table_new_full(g_direct_hash, g_direct_equal, NULL, g_free);
    vg_vm_sample_init(&build->sample);
    build->sample.id = process->id;
    build->sample.pid = process->pid;
    vg_process_vm_name(process, build->sample.name);
    memcpy(build->sample.uuid, process->uuid, sizeof(build->sample.uuid));
    g_hash_table_insert(reading->vms, GUINT_TO_POINTER(process->id), build);
    return build;
}

static enum vg_aggressor_kind
kind_of_host_holder(uint32_t holder)
{
    switch (holder) {
    case VG_HOLDER_IDLE:
        return VG_AGGRESSOR_HOST_IDLE;
    case VG_HOLDER_LIMIT:
        return VG_AGGRESSOR_LIMIT;
    case VG_HOLDER_HOST_KERNEL:
        return VG_AGGRESSOR_HOST_KERNEL;
    case VG_HOLDER_HOST_USER:
        return VG_AGGRESSOR_HOST_USER;
    default:
        return VG_AGGRESSOR_HOST_UNKNOWN;
    }
}

/* Returns the row of the victim's table for a holder, by what is known now. A process that never
 * showed a vCPU is an ordinary program. */
static struct vg_lost_to *
lost_row(struct reading *reading, struct vm_build *victim, uint32_t holder)
{
    enum vg_aggressor_kind kind = VG_AGGRESSOR_HOST_USER;

    struct vg_process *process = holder > VG_HOLDER_VM_LIMIT
                                     ? NULL
                                     : vg_topology_process_at(reading->ledger->topology, holder);
    if (!process) {
        /* A VM that was forgotten belongs to another window. */
        kind = kind_of_host_holder(holder);
    } else {
        process = vg_process_resolve(process);
        if (process->is_vm) {
            vm_build_of(reading, process);
            holder = process->id;
            kind = holder == victim->sample.id ? VG_AGGRESSOR_SELF : VG_AGGRESSOR_VM;
        } else if (process->is_kernel) {
            kind = VG_AGGRESSOR_HOST_KERNEL;
        }
    }
    uint32_t key = kind == VG_AGGRESSOR_VM ? holder : VG_HOLDER_VM_LIMIT + 1 + kind;
    struct vg_lost_to *row = g_hash_table_lookup(victim->lost, GUINT_TO_POINTER(key));
    if (!row) {
        row = g_new0(struct vg_lost_to, 1);
        row->kind = kind;
        row->vm_id = kind == VG_AGGRESSOR_VM ? holder : VG_PROCESS_NO_ID;
        g_hash_table_insert(victim->lost, GUINT_TO_POINTER(key), row);
    }
    return row;
}

static void
cpu_ledger_read_add_amount(struct reading *reading, struct vm_build *victim, uint32_t holder,
                           const struct vg_lost_amount *amount)
{
    int64_t ns = amount->vcpu_ns + amount->other_ns;

    if (ns == 0 && amount->count == 0)
        return;
    struct vg_lost_to *row = lost_row(reading, victim, holder);
    row->ns += ns;
    row->count += amount->count;
    if (row->kind == VG_AGGRESSOR_VM || row->kind == VG_AGGRESSOR_SELF) {
        row->vcpu_ns += amount->vcpu_ns;
        row->emulator_ns += amount->other_ns;
    }
}

static struct vg_lost_amount
cpu_ledger_read_unclosed(const struct vg_lost_entry *entry)
{
    return (struct vg_lost_amount){
        .vcpu_ns = entry->total.vcpu_ns - entry->closed.vcpu_ns,
        .other_ns = entry->total.other_ns - entry->closed.other_ns,
        .count = entry->total.count - entry->closed.count,
    };
}

/* Returns the holder that is reported for an entry while its window is open. */
static uint32_t
cpu_ledger_read_holder(const struct cpu_thread *thread, const struct vg_lost_entry *entry)
{
    return entry->holder == VG_HOLDER_LIMIT && !cpu_limit_is_regular(&thread->limit)
               ? VG_HOLDER_IDLE
               : entry->holder;
}

static void
cpu_ledger_read_add_lost(struct reading *reading, struct vm_build *victim,
                         const struct cpu_thread *thread, const struct vg_cpu_figures *figures)
{
    int64_t explained = 0;

    for (uint32_t i = 0; i < thread->lost.capacity; i++) {
        const struct vg_lost_entry *entry = &thread->lost.entries[i];
        if (!entry->used)
            continue;
        struct vg_lost_amount amount = cpu_ledger_read_unclosed(entry);
        explained += amount.vcpu_ns + amount.other_ns;
        cpu_ledger_read_add_amount(reading, victim, cpu_ledger_read_holder(thread, entry), &amount);
        if (reading->whole_period) {
            explained += entry->closed.vcpu_ns + entry->closed.other_ns;
            cpu_ledger_read_add_amount(reading, victim, entry->holder, &entry->closed);
        }
    }
    /* Waits from before the thread was known to belong to a VM. */
    int64_t unexplained = figures->preempt_ns + figures->wake_wait_ns - explained;
    if (unexplained > 0)
        lost_row(reading, victim, VG_HOLDER_UNKNOWN)->ns += unexplained;
}

static void
add_vcpu(struct reading *reading, struct vm_build *build, const struct cpu_thread *thread,
         const struct vg_cpu_figures *figures)
{
    struct vg_vcpu_sample vcpu = {
        .tid = thread->who->tid,
        .index = thread->who->vcpu_index,
        .cpu = *figures,
    };

    g_array_append_val(build->sample.vcpus, vcpu);
    vg_cpu_figures_add(&build->sample.cpu, figures);
    build->sleeps.woken += thread->sight.sleeps.woken;
    build->sleeps.unwoken += thread->sight.sleeps.unwoken;
    if (!reading->whole_period)
        vg_window_add_last_place(build->sample.places, thread->cpu, figures->run_ns);
    for (size_t i = 0; i < CPU_SET_WORDS; i++)
        build->cpu_set[i] |= thread->cpu_set[i];
    build->beyond_cpu_set |= thread->beyond_cpu_set;
    cpu_ledger_read_add_lost(reading, build, thread, figures);
}

static void
add_task(struct vg_window *window, const struct cpu_thread *thread,
         const struct vg_cpu_figures *figures)
{
    const struct vg_process *process = vg_thread_process(thread->who);
    struct vg_task_sample task = {
        .tid = thread->who->tid,
        .pid = process->pid_known ? process->pid : VG_NONE,
        .cpu = *figures,
    };

    memcpy(task.comm, thread->who->comm, sizeof(task.comm));
    g_array_append_val(window->tasks, task);
}

static bool
is_zero(const struct vg_cpu_figures *figures)
{
    static const struct vg_cpu_figures zero;

    return memcmp(figures, &zero, sizeof(zero)) == 0;
}

static uint64_t
cpu_ledger_read_exits(const struct vg_cpu_figures *figures)
{
    uint64_t exits = 0;

    for (size_t i = 0; i < VG_EXIT_CLASS_MAX; i++)
        exits += figures->exits[i];
    return exits;
}

static void
add_threads(struct reading *reading)
{
    int64_t own_ns = 0;

    for (unsigned int i = 0; i < reading->ledger->threads->len; i++) {
        const struct cpu_thread *thread = g_ptr_array_index(reading->ledger->threads, i);
        if (!thread)
            continue;
        struct vg_cpu_figures figures = cpu_ledger_read_figures_of(reading, thread);
        struct vg_process *process = vg_thread_process(thread->who);
        bool silent = thread->state == STATE_EXITED && is_zero(&figures);
        reading->has_entries |= thread->total.entries > 0;
        reading->has_exits |= cpu_ledger_read_exits(&thread->total) > 0;
        if (!process->is_vm || !thread->who->is_vcpu)
            own_ns = vg_time_sum(own_ns, figures.run_ns);
        if (process->is_vm && !silent) {
            struct vm_build *build = vm_build_of(reading, process);
            if (thread->who->is_vcpu)
                add_vcpu(reading, build, thread, &figures);
        }
        if (reading->window->tasks && !silent)
            add_task(reading->window, thread, &figures);
    }
    /* The ledger forgets threads that ended, so their time is missing from longer periods. */
    if (!reading->whole_period)
        reading->window->host.own_ns = own_ns;
}

static int
compare_tasks(const void *a, const void *b)
{
    const struct vg_task_sample *x = a, *y = b;

    return (x->tid > y->tid) - (x->tid < y->tid);
}

static void
list_cpus(const struct vm_build *build, GArray *cpus)
{
    if (build->beyond_cpu_set)
        return;
    for (int32_t cpu = 0; cpu < CPU_SET_MAX; cpu++) {
        if (build->cpu_set[cpu / 64] & (UINT64_C(1) << (cpu % 64)))
            g_array_append_val(cpus, cpu);
    }
}

/* Keeps the VMs that took the most, as the tables of threads do. The rows are sorted. */
static void
cpu_ledger_read_fold(GArray *rows)
{
    struct vg_lost_to rest = {.kind = VG_AGGRESSOR_HOST_UNKNOWN, .vm_id = VG_PROCESS_NO_ID};
    guint vms = 0, kept = 0;

    if (rows->len <= VG_LOST_MAP_VMS_MAX)
        return;
    for (guint i = 0; i < rows->len; i++) {
        const struct vg_lost_to row = g_array_index(rows, struct vg_lost_to, i);
        vms += row.kind == VG_AGGRESSOR_VM;
        if (row.kind == VG_AGGRESSOR_HOST_UNKNOWN ||
            (row.kind == VG_AGGRESSOR_VM && vms > VG_LOST_MAP_VMS_MAX)) {
            rest.ns += row.ns;
            rest.count += row.count;
        } else {
            g_array_index(rows, struct vg_lost_to, kept++) = row;
        }
    }
    g_array_set_size(rows, kept);
    if (rest.ns > 0 || rest.count > 0)
        g_array_append_val(rows, rest);
    vg_window_sort_lost_to(rows);
}

static void
finish_vms(struct reading *reading)
{
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, reading->vms);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct vm_build *build = value;
        GHashTableIter rows;
        void *row;
        g_hash_table_iter_init(&rows, build->lost);
        while (g_hash_table_iter_next(&rows, NULL, &row))
            g_array_append_vals(build->sample.lost_to, row, 1);
        vg_window_sort_lost_to(build->sample.lost_to);
        cpu_ledger_read_fold(build->sample.lost_to);
        vg_window_sort_vcpus(build->sample.vcpus);
        list_cpus(build, build->sample.cpus);
        const uint64_t kvm_events =
            build->sample.cpu.entries + cpu_ledger_read_exits(&build->sample.cpu);
        build->sample.guest_known = reading->has_entries && reading->has_exits &&
                                    (kvm_events > 0 || build->sample.cpu.guest_ns > 0);
        if (reading->ledger->judge_wakeups && vg_cpu_sleeps_miss_wakeups(&build->sleeps))
            build->sample.lacks |= VG_CPU_NO_WAKEUPS;
        g_array_append_val(reading->window->vms, build->sample);
    }
    vg_window_sort_vms(reading->window);
    if (reading->window->tasks)
        g_array_sort(reading->window->tasks, compare_tasks);
}

static void
read_window(struct vg_cpu_ledger *ledger, int64_t t_ns, bool with_tasks, bool whole_period,
            struct vg_window *ret)
{
    struct reading reading = {.ledger = ledger, .window = ret, .whole_period = whole_period};

    if (t_ns > ledger->now)
        ledger->now = t_ns;
    cpu_ledger_settle(ledger, ledger->now);
    vg_window_init(ret, with_tasks);
    ret->begin_ns = whole_period ? ledger->period_begin : ledger->window_begin;
    ret->end_ns = ledger->now;
    ret->lost_events = ledger->lost_events;
    ret->lost_packets = ledger->lost_packets;
    ret->discontinuities = ledger->discontinuities;
    if (!whole_period) {
        ret->lost_events -= ledger->lost_events_closed;
        ret->lost_packets -= ledger->lost_packets_closed;
        ret->discontinuities -= ledger->discontinuities_closed;
    }
    reading.vms = g_hash_table_new_full(g_direct_hash, g_direct_equal, NULL, vm_build_free);
    add_threads(&reading);
    finish_vms(&reading);
    g_hash_table_unref(reading.vms);
}

void
vg_cpu_ledger_read_period(vg_cpu_ledger *ledger, int64_t t_ns, bool with_tasks,
                          struct vg_window *ret)
{
    read_window(ledger, t_ns, with_tasks, true, ret);
}

/* Returns the figures of a thread as if its time were accounted up to t. */
static struct vg_cpu_figures
figures_at(const struct cpu_thread *thread, int64_t t_ns)
{
    struct cpu_thread copy = *thread;

    cpu_thread_account(&copy, t_ns);
    if (copy.in_guest && t_ns > copy.guest_since)
        copy.total.guest_ns += t_ns - copy.guest_since;
    return copy.total;
}

void
vg_cpu_ledger_peek(const vg_cpu_ledger *ledger, int64_t t_ns, struct vg_window *ret)
{
    vg_window_init(ret, false);
    ret->begin_ns = ledger->period_begin;
    ret->end_ns = MAX(t_ns, ledger->now);
    for (unsigned int i = 0; i < ledger->threads->len; i++) {
        const struct cpu_thread *thread = g_ptr_array_index(ledger->threads, i);
        if (!thread || !thread->who->is_vcpu || !vg_thread_process(thread->who)->is_vm)
            continue;
        const struct vg_cpu_figures figures = figures_at(thread, ret->end_ns);
        const struct vg_process *process = vg_thread_process(thread->who);
        struct vg_vm_sample *vm = vg_window_find_vm(ret, process->id);
        if (!vm) {
            struct vg_vm_sample sample;
            vg_vm_sample_init(&sample);
            sample.id = process->id;
            sample.pid = process->pid;
            vg_process_vm_name(process, sample.name);
            g_array_append_val(ret->vms, sample);
            vm = &g_array_index(ret->vms, struct vg_vm_sample, ret->vms->len - 1);
        }
        vg_cpu_figures_add(&vm->cpu, &figures);
    }
    vg_window_sort_vms(ret);
}

/* Keeps what a closed window reported: a quota that is recognised later does not change it. */
static void
cpu_ledger_read_settle_limit(struct cpu_thread *thread)
{
    struct vg_lost_entry *limit = vg_lost_map_entry(&thread->lost, VG_HOLDER_LIMIT);
    const struct vg_lost_amount moved = cpu_ledger_read_unclosed(limit);

    limit->total = limit->closed;
    struct vg_lost_amount *idle = &vg_lost_map_entry(&thread->lost, VG_HOLDER_IDLE)->total;
    idle->vcpu_ns += moved.vcpu_ns;
    idle->other_ns += moved.other_ns;
    idle->count += moved.count;
}

static void
close_thread(struct cpu_thread *thread, bool windows_only)
{
    if (thread->limit.any && !cpu_limit_is_regular(&thread->limit))
        cpu_ledger_read_settle_limit(thread);
    thread->closed = thread->total;
    thread->window_clips = cpu_thread_open_intervals(thread);
    for (uint32_t i = 0; i < thread->lost.capacity; i++)
        thread->lost.entries[i].closed = thread->lost.entries[i].total;
    if (windows_only) {
        vg_lost_map_clear(&thread->lost);
        thread->sight.sleeps = (struct vg_cpu_sleeps){0};
    }
}

static void
drop_thread(void *data, uint32_t slot)
{
    struct vg_cpu_ledger *ledger = data;
    /* The ledger does not know threads that ended before it was created. */
    struct cpu_thread *thread =
        slot < ledger->threads->len ? g_ptr_array_index(ledger->threads, slot) : NULL;

    if (!thread)
        return;
    vg_lost_map_clear(&thread->lost);
    g_free(thread);
    g_ptr_array_index(ledger->threads, slot) = NULL;
}

void
vg_cpu_ledger_close_window(vg_cpu_ledger *ledger, int64_t t_ns, bool with_tasks,
                           struct vg_window *ret)
{
    read_window(ledger, t_ns, with_tasks, false, ret);
    for (unsigned int i = 0; i < ledger->threads->len; i++) {
        struct cpu_thread *thread = g_ptr_array_index(ledger->threads, i);
        if (thread)
            close_thread(thread, ledger->windows_only);
    }
    if (ledger->windows_only)
        ledger->sight.sleeps = (struct vg_cpu_sleeps){0};
    ledger->window_begin = ledger->now;
    ledger->discontinuities_closed = ledger->discontinuities;
    ledger->lost_events_closed = ledger->lost_events;
    ledger->lost_packets_closed = ledger->lost_packets;
    if (ledger->windows_only)
        vg_topology_forget_dead(ledger->topology, drop_thread, ledger);
    else if (!ledger->keep_tasks)
        vg_topology_release_dead(ledger->topology, drop_thread, ledger);
}
