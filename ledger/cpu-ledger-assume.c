/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads to which nothing happens. Without a record, the ledger does not know that they exist. A
 * collector that starts on a running host can determine their states and report them. This file
 * also handles threads whose kind a record reveals late.
 */
#include "config.h"

#include "ledger/cpu-ledger-private.h"

/* Returns the start of the assumed state. Losses on the CPU before were not observed. */
static int64_t
begin_of(const struct vg_cpu_ledger *ledger, const struct cpu_thread *thread, int64_t since_ns)
{
    int64_t begin_ns = CLAMP(since_ns, ledger->window_begin, ledger->now);

    return thread->state == STATE_UNSEEN ? begin_ns : MAX(begin_ns, thread->since);
}

static void
cpu_ledger_assume_run(struct vg_cpu_ledger *ledger, struct cpu_thread *thread, int32_t index,
                      int64_t since_ns)
{
    struct cpu *cpu = &ledger->cpus[index];

    cpu_charge_waiters(ledger, cpu, ledger->now);
    cpu_thread_run(ledger, thread, index, since_ns);
    cpu_set_holder(cpu, thread->who->tid, thread);
}

bool
vg_cpu_ledger_assume(vg_cpu_ledger *ledger, int32_t tid, enum vg_assumed assumed, int32_t cpu,
                     int64_t since_ns)
{
    struct cpu_thread *thread = cpu_ledger_thread(ledger, tid);
    int64_t begin_ns = begin_of(ledger, thread, since_ns);

    if (thread->state != STATE_UNSEEN && thread->state != STATE_UNKNOWN)
        return false;
    switch (assumed) {
    case VG_ASSUMED_BLOCKED:
        cpu_thread_set_state(ledger, thread, STATE_BLOCKED, begin_ns);
        thread->cpu = cpu;
        return true;
    case VG_ASSUMED_RUNNING:
        /* A different thread is known to run there, so the assumed state has ended. */
        if (cpu == VG_NONE || ledger->cpus[cpu].known)
            return false;
        cpu_ledger_assume_run(ledger, thread, cpu, begin_ns);
        return true;
    case VG_ASSUMED_WAITING:
        cpu_thread_wait(ledger, thread, STATE_WAIT_PREEMPT, cpu, begin_ns);
        thread->charged = ledger->now; /* it is unknown what ran before */
        return true;
    }
    return false;
}

void
cpu_ledger_learn_vcpu(struct vg_cpu_ledger *ledger, struct cpu_thread *thread)
{
    const struct cpu *cpu = &ledger->cpus[thread->cpu];
    struct vg_process *process = vg_thread_process(thread->who);
    bool was_told = process->is_vm || process->maybe_vm || thread->who->kind == VG_THREAD_KERNEL;

    vg_topology_set_vcpu(ledger->topology, thread->who);
    if (was_told || cpu->thread != thread || cpu->left_tid <= 0)
        return;
    struct cpu_thread *victim = cpu_ledger_thread(ledger, cpu->left_tid);
    if (victim->state != STATE_WAIT_PREEMPT || victim->cpu != thread->cpu || !victim->attributed)
        return;
    struct vg_lost_entry *program = vg_lost_map_entry(&victim->lost, VG_HOLDER_HOST_USER);
    if (program->total.count <= program->closed.count)
        return;
    program->total.count--;
    process = vg_thread_process(thread->who);
    vg_lost_map_entry(&victim->lost, vg_topology_process_id(ledger->topology, process))
        ->total.count++;
}
