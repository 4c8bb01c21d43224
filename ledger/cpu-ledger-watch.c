/* SPDX-License-Identifier: Apache-2.0
 *
 * What the CPU ledger reports as it happens. Reports are made where an event is handled, after the
 * ledger's state is consistent again.
 */
#include "config.h"

#include "ledger/cpu-ledger-private.h"

static enum vg_cpu_doing
doing_of(const struct cpu_thread *thread)
{
    switch ((enum thread_state)thread->state) {
    case STATE_RUNNING:
        return thread->in_guest ? VG_CPU_RUNS_GUEST : VG_CPU_RUNS;
    case STATE_WAIT_PREEMPT:
        return VG_CPU_WAITS_PREEMPTED;
    case STATE_WAIT_WAKE:
        return VG_CPU_WAITS_WOKEN;
    case STATE_EXITED:
        return VG_CPU_GONE;
    case STATE_UNSEEN:
    case STATE_UNKNOWN:
    case STATE_BLOCKED:
        break;
    }
    return VG_CPU_NOTHING;
}

void
cpu_ledger_tell_watch(const struct vg_cpu_ledger *ledger, const struct cpu_thread *thread,
                      const struct cpu *cpu, int64_t now)
{
    const struct vg_cpu_change change = {
        .thread = thread->who,
        .doing = doing_of(thread),
        .cpu = thread->cpu,
        .t_ns = now,
        .taken = cpu && cpu->known,
        .taker = cpu && cpu->thread ? cpu->thread->who : NULL,
    };

    ledger->watch(ledger->watch_data, &change);
}

void
vg_cpu_ledger_watch(vg_cpu_ledger *ledger, vg_cpu_change_fn *fn, void *data)
{
    ledger->watch = fn;
    ledger->watch_data = data;
    for (unsigned int i = 0; fn && i < ledger->threads->len; i++) {
        const struct cpu_thread *thread = g_ptr_array_index(ledger->threads, i);
        if (thread && thread->state != STATE_EXITED)
            cpu_ledger_tell(ledger, thread, NULL, ledger->now);
    }
}
