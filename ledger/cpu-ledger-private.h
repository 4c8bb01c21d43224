/* SPDX-License-Identifier: Apache-2.0
 *
 * State of the CPU ledger, shared by its two halves: cpu-ledger.c moves threads between states as
 * events come, cpu-ledger-read.c turns the counters into window samples.
 */
#ifndef VG_LEDGER_CPU_LEDGER_PRIVATE_H
#define VG_LEDGER_CPU_LEDGER_PRIVATE_H

#include "ledger/cpu-ledger.h"
#include "ledger/lost-map.h"

/* CPUs that a thread's cpu_set can name; a thread seen beyond has an unknown set. */
#define CPU_SET_MAX   512
#define CPU_SET_WORDS (CPU_SET_MAX / 64)

enum thread_state {
    STATE_UNSEEN,  /* nothing recorded yet: not observed */
    STATE_UNKNOWN, /* observed, but the last record was contradicted or lost: "the rest" */
    STATE_RUNNING,
    STATE_WAIT_PREEMPT,
    STATE_WAIT_WAKE,
    STATE_BLOCKED,
    STATE_EXITED
};

/* Waits of a thread that began when it left its CPU idle though it could run. A CPU quota causes
 * them: they end when the quota's period does, whole periods apart. */
struct cpu_limit {
    bool any;         /* there was one */
    int64_t last_end; /* 0: none has ended */
    int64_t period;   /* the least time between two ends; 0: not known */
    uint32_t fits;    /* ends that came whole periods after the one before */
    uint32_t misfits;
};

struct cpu_thread {
    struct vg_thread *who;
    uint8_t state;   /* enum thread_state */
    bool in_guest;   /* between kvm_entry and kvm_exit */
    bool attributed; /* the present wait is in its CPU's list of waiters */
    bool left_idle;  /* the present wait began when it left its CPU idle */
    int32_t cpu;     /* runs there, waits for it, or was last there; or VG_NONE */
    int64_t since;   /* time is accounted up to here; may lie ahead, after reported loss */
    int64_t guest_since;
    int64_t charged; /* the present wait is charged to aggressors up to here */
    struct cpu_thread *next_waiter, **waiter_link;
    struct vg_cpu_figures total;  /* since the period began */
    struct vg_cpu_figures closed; /* of these, reported in closed windows */
    struct vg_lost_map lost;
    struct cpu_limit limit;
    uint8_t begin_clips;             /* intervals that were open when the period began */
    uint8_t window_clips;            /* ... when the window began */
    bool beyond_cpu_set;             /* was on a CPU that cpu_set has no bit for */
    uint64_t cpu_set[CPU_SET_WORDS]; /* CPUs it ran on or waited for since the period began */
};

struct cpu {
    bool known; /* who holds it */
    int32_t tid;
    int32_t left_tid;          /* who left at the last sched_switch */
    struct cpu_thread *thread; /* NULL: idle or unknown */
    struct cpu_thread *waiters;
    int64_t lost_until; /* records of it are lost up to here; INT64_MAX: until its next switch */
};

struct vg_cpu_ledger {
    vg_topology *topology;
    GPtrArray *threads; /* struct cpu_thread by slot, owned; NULL: no record of it yet */
    struct cpu *cpus;   /* VG_CPU_LIMIT of them */
    int32_t n_cpus;     /* those from this one on have no records yet */
    int64_t lost_until; /* and those of these are lost up to here */
    bool use_waking;
    bool keep_tasks;
    bool windows_only;
    bool begun;
    int64_t now; /* of the last event */
    int64_t period_begin;
    int64_t window_begin;
    uint64_t discontinuities, discontinuities_closed;
    uint64_t lost_events, lost_events_closed;
    uint64_t lost_packets, lost_packets_closed;
    vg_cpu_change_fn *watch;
    void *watch_data;
};

/* Accounts the thread's time up to now in its present state. */
void cpu_thread_account(struct cpu_thread *thread, int64_t now);

/* The thread with this tid, made if it is new. */
struct cpu_thread *cpu_ledger_thread(struct vg_cpu_ledger *ledger, int32_t tid);

/* Changes of state: closes what the old one kept open, and begins to wait or to run on a CPU. Who
 * holds that CPU is the caller's business. */
void cpu_thread_set_state(struct vg_cpu_ledger *ledger, struct cpu_thread *thread,
                          enum thread_state state, int64_t now);
void cpu_thread_wait(struct vg_cpu_ledger *ledger, struct cpu_thread *thread,
                     enum thread_state kind, int32_t cpu, int64_t now);
void cpu_thread_run(struct vg_cpu_ledger *ledger, struct cpu_thread *thread, int32_t cpu,
                    int64_t now);

/* Before the holder of a CPU changes: its time so far goes on the account of all who wait. */
void cpu_charge_waiters(struct vg_cpu_ledger *ledger, struct cpu *cpu, int64_t now);

/* The thread holds the CPU; NULL: the CPU is idle. */
void cpu_set_holder(struct cpu *cpu, int32_t tid, struct cpu_thread *thread);

/* Tells the observer what the thread does now. For a preempted one: whose the CPU is, if *cpu is
 * not NULL. */
void cpu_ledger_tell_watch(const struct vg_cpu_ledger *ledger, const struct cpu_thread *thread,
                           const struct cpu *cpu, int64_t now) __attribute__((cold));

static inline void
cpu_ledger_tell(const struct vg_cpu_ledger *ledger, const struct cpu_thread *thread,
                const struct cpu *cpu, int64_t now)
{
    if (G_UNLIKELY(ledger->watch))
        cpu_ledger_tell_watch(ledger, thread, cpu, now);
}

/* Notes that a wait of this kind has ended. */
void cpu_limit_add_end(struct cpu_limit *limit, int64_t now);

/* Tells whether these waits come as regularly as a quota causes them. */
bool cpu_limit_is_regular(const struct cpu_limit *limit);

/* Makes the thread, which runs, a vCPU. If nothing told before that its process is a VM, the
 * preemption that gave it the CPU has counted for a program of the host, and counts for it now. */
void cpu_ledger_learn_vcpu(struct vg_cpu_ledger *ledger, struct cpu_thread *thread);

/* Brings every thread up to now. */
void cpu_ledger_settle(struct vg_cpu_ledger *ledger, int64_t now);

/* How many intervals of the thread are open: running or waiting, and in its guest. */
static inline uint8_t
cpu_thread_open_intervals(const struct cpu_thread *thread)
{
    bool open = thread->state == STATE_RUNNING || thread->state == STATE_WAIT_PREEMPT ||
                thread->state == STATE_WAIT_WAKE;
    return (uint8_t)(open + thread->in_guest);
}

#endif
