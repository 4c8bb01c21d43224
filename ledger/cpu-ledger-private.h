/* SPDX-License-Identifier: Apache-2.0
 *
 * Internal state of the CPU ledger. cpu-ledger.c moves threads between states as events arrive;
 * cpu-ledger-read.c converts the counters into window samples.
 */
#ifndef VG_LEDGER_CPU_LEDGER_PRIVATE_H
#define VG_LEDGER_CPU_LEDGER_PRIVATE_H

#include "ledger/cpu-ledger.h"
#include "ledger/lost-map.h"

/* CPUs that a thread's cpu_set can hold. A thread seen on a higher CPU has an unknown set. */
#define CPU_SET_MAX   512
#define CPU_SET_WORDS (CPU_SET_MAX / 64)

enum thread_state {
    STATE_UNSEEN,  /* nothing recorded yet: not observed */
    STATE_UNKNOWN, /* observed, but the last record was contradicted or lost: counted as "the rest"
                    */
    STATE_RUNNING,
    STATE_WAIT_PREEMPT,
    STATE_WAIT_WAKE,
    STATE_BLOCKED,
    STATE_EXITED
};

/* Waits that started when the thread left its CPU idle although it could run. A CPU quota causes
 * them: they end with the quota's period, so their ends are whole periods apart. */
struct cpu_limit {
    bool any;         /* at least one was seen */
    int64_t last_end; /* 0 if none has ended */
    int64_t period;   /* the shortest time between two ends; 0 if not known */
    uint32_t fits;    /* ends at a whole number of periods after the previous end */
    uint32_t misfits;
};

struct cpu_thread {
    struct vg_thread *who;
    uint8_t state;   /* enum thread_state */
    bool in_guest;   /* between kvm_entry and kvm_exit */
    bool attributed; /* the current wait is in its CPU's list of waiters */
    bool left_idle;  /* the current wait started when it left its CPU idle */
    int32_t cpu; /* where the thread is running, for which it is waiting, or where it last was; or
                    VG_NONE */
    int64_t
        since; /* time is accounted up to this point; may be in the future, after a reported loss */
    int64_t guest_since;
    int64_t charged; /* the current wait is charged to aggressors up to here */
    struct cpu_thread *next_waiter, **waiter_link;
    struct vg_cpu_figures total;  /* since the start of the period */
    struct vg_cpu_figures closed; /* the part already reported in closed windows */
    struct vg_lost_map lost;
    struct cpu_limit limit;
    struct cpu_thread_sight sight;
    uint8_t begin_clips;             /* intervals that were open at the start of the period */
    uint8_t window_clips;            /* ... at the start of the window */
    bool beyond_cpu_set;             /* was on a CPU beyond CPU_SET_MAX */
    uint64_t cpu_set[CPU_SET_WORDS]; /* CPUs where it ran or waited since the start of the period */
};

struct cpu {
    bool known; /* the holder is known */
    int32_t tid;
    int32_t left_tid;          /* the thread that left at the last sched_switch */
    struct cpu_thread *thread; /* NULL if idle or unknown */
    struct cpu_thread *waiters;
    int64_t lost_until; /* its records are lost up to here; INT64_MAX until its next switch */
};

struct vg_cpu_ledger {
    vg_topology *topology;
    GPtrArray *threads; /* struct cpu_thread by slot, owned; NULL without a record */
    struct cpu *cpus;   /* VG_CPU_LIMIT of them */
    int32_t n_cpus;     /* CPUs from this number on have no records yet */
    int64_t lost_until; /* the records of those CPUs are lost up to here */
    bool use_waking;
    bool keep_tasks;
    bool windows_only;
    bool judge_wakeups;
    bool begun;
    int64_t now; /* of the last event */
    int64_t period_begin;
    int64_t window_begin;
    uint64_t discontinuities, discontinuities_closed;
    uint64_t lost_events, lost_events_closed;
    uint64_t lost_packets, lost_packets_closed;
    struct cpu_sight sight;
    vg_cpu_change_fn *watch;
    void *watch_data;
};

/* Accounts the thread's time up to now in its current state. */
void cpu_thread_account(struct cpu_thread *thread, int64_t now);

/* Returns the thread with this tid, creating it if necessary. */
struct cpu_thread *cpu_ledger_thread(struct vg_cpu_ledger *ledger, int32_t tid);

/* Change the state: close what the old state left open, and start to wait or run on a CPU. The
 * caller updates the holder of that CPU. */
void cpu_thread_set_state(struct vg_cpu_ledger *ledger, struct cpu_thread *thread,
                          enum thread_state state, int64_t now);
void cpu_thread_wait(struct vg_cpu_ledger *ledger, struct cpu_thread *thread,
                     enum thread_state kind, int32_t cpu, int64_t now);
void cpu_thread_run(struct vg_cpu_ledger *ledger, struct cpu_thread *thread, int32_t cpu,
                    int64_t now);

/* Call before the holder of a CPU changes: charges the holder's time until now to all waiters. */
void cpu_charge_waiters(struct vg_cpu_ledger *ledger, struct cpu *cpu, int64_t now);

/* Makes the thread the holder of the CPU, or marks the CPU as idle if it is NULL. */
void cpu_set_holder(struct cpu *cpu, int32_t tid, struct cpu_thread *thread);

/* Reports the thread's current activity to the observer. For a preempted thread, includes the
 * CPU's new holder unless *cpu is NULL. */
void cpu_ledger_tell_watch(const struct vg_cpu_ledger *ledger, const struct cpu_thread *thread,
                           const struct cpu *cpu, int64_t now) __attribute__((cold));

static inline void
cpu_ledger_tell(const struct vg_cpu_ledger *ledger, const struct cpu_thread *thread,
                const struct cpu *cpu, int64_t now)
{
    if (G_UNLIKELY(ledger->watch))
        cpu_ledger_tell_watch(ledger, thread, cpu, now);
}

/* Records the end of a wait that started when the thread left its CPU idle. */
void cpu_limit_add_end(struct cpu_limit *limit, int64_t now);

/* Returns whether these waits are as regular as those that a quota causes. */
bool cpu_limit_is_regular(const struct cpu_limit *limit);

/* Marks the running thread as a vCPU. If its process was not known to be a VM, the preemption that
 * gave it the CPU was charged to a host program; charges it to the VM instead. */
void cpu_ledger_learn_vcpu(struct vg_cpu_ledger *ledger, struct cpu_thread *thread);

/* Accounts every thread up to now. */
void cpu_ledger_settle(struct vg_cpu_ledger *ledger, int64_t now);

/* Returns the number of the thread's open intervals: running or waiting, and in its guest. */
static inline uint8_t
cpu_thread_open_intervals(const struct cpu_thread *thread)
{
    bool open = thread->state == STATE_RUNNING || thread->state == STATE_WAIT_PREEMPT ||
                thread->state == STATE_WAIT_WAKE;
    return (uint8_t)(open + thread->in_guest);
}

#endif
