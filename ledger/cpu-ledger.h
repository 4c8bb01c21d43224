/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU ledger: which threads ran, which waited, and what held the CPU in the meantime. It
 * receives events in time order. It keeps the figures of model/cpu-figures.h for every thread, and
 * for every VM thread which aggressors held the CPU while that thread waited.
 *
 * A thread is unseen, running on a CPU, waiting for one (after a preemption or a wakeup) or
 * blocked. Time in an unknown state counts as blocked, "the rest". A record that contradicts the
 * state counts as a discontinuity and overrides the state. The exception is an event of no interest
 * (VG_EVENT_OTHER) by the thread that left the CPU last, because the thread may record it after its
 * sched_switch. Activity on a CPU whose records are lost is not observed, including that of threads
 * woken there.
 *
 * One period is open at a time, and windows are parts of it. Both use the same counters, so the
 * windows of a period add up to it exactly. One thread at a time; no I/O, no clock.
 */
#ifndef VG_LEDGER_CPU_LEDGER_H
#define VG_LEDGER_CPU_LEDGER_H

#include "ledger/cpu-sight.h"
#include "model/cpu-figures.h"
#include "model/topology.h"
#include "model/window.h"

typedef struct vg_cpu_ledger vg_cpu_ledger;

/* topology is borrowed and must outlive the ledger, which also feeds it. */
vg_cpu_ledger *vg_cpu_ledger_new(vg_topology *topology);
void vg_cpu_ledger_free(vg_cpu_ledger *ledger);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_cpu_ledger, vg_cpu_ledger_free)

/* Uses sched_waking in place of sched_wakeup, for recordings without sched_wakeup. Initially
 * off. */
void vg_cpu_ledger_use_waking(vg_cpu_ledger *ledger, bool use);

/* Takes one event. If its time is before the previous event's, it counts as a discontinuity and
 * the previous time is used. */
void vg_cpu_ledger_feed(vg_cpu_ledger *ledger, const struct vg_event *event);

/* State of a thread without records: it is sleeping, running on the CPU, or waiting for it. */
enum vg_assumed { VG_ASSUMED_BLOCKED, VG_ASSUMED_RUNNING, VG_ASSUMED_WAITING };

/* Assumes that the thread has been in this state since that time, limited to the open window and to
 * the time after known losses. A wait is taken as a preemption. cpu may be VG_NONE. Returns false
 * if records have shown the state, which take precedence. Records must have been fed up to now. */
bool vg_cpu_ledger_assume(vg_cpu_ledger *ledger, int32_t tid, enum vg_assumed assumed, int32_t cpu,
                          int64_t since_ns);

/* Starts a period at time t. Intervals open at t are clipped to it and counted; all figures are
 * zero. Without this call the period starts at the first event. */
void vg_cpu_ledger_begin(vg_cpu_ledger *ledger, int64_t t_ns);

/* Closes a window at t (not before the last event), which covers the time since the last close or
 * the start of the period. The caller owns *ret and clears it with vg_window_clear(). with_tasks
 * adds every thread. Threads that have ended and are not vCPUs are then forgotten, except after
 * vg_cpu_ledger_keep_tasks(). */
void vg_cpu_ledger_close_window(vg_cpu_ledger *ledger, int64_t t_ns, bool with_tasks,
                                struct vg_window *ret);

/* Reads the period from its start to t (not before the last event). The ledger continues. */
void vg_cpu_ledger_read_period(vg_cpu_ledger *ledger, int64_t t_ns, bool with_tasks,
                               struct vg_window *ret);

/* Keeps host threads that have ended for the figures of the whole period. Memory use grows with
 * them. */
void vg_cpu_ledger_keep_tasks(vg_cpu_ledger *ledger, bool keep);

/* Declares that only windows will be read, never the period. State is then forgotten after the
 * window where it ended, so that memory use is bounded. A VM that was forgotten is in no later
 * window. */
void vg_cpu_ledger_windows_only(vg_cpu_ledger *ledger, bool windows_only);

/* Reads the signs of missing records. The sleeps are from the period or, after
 * vg_cpu_ledger_windows_only(), from the open window. */
void vg_cpu_ledger_read_sight(const vg_cpu_ledger *ledger, struct vg_cpu_sight *ret);

/* Sets whether a VM whose wakeups are missing gets VG_CPU_NO_WAKEUPS, from the next window on. The
 * default is no: live sources report what they lose. */
void vg_cpu_ledger_judge_wakeups(vg_cpu_ledger *ledger, bool judge);

/* Reads only each VM's vCPU totals of the period up to t (not before the last event), for callers
 * that poll more often than windows are closed. The ledger's state is unchanged, so the call does
 * not affect how losses are attributed. */
void vg_cpu_ledger_peek(const vg_cpu_ledger *ledger, int64_t t_ns, struct vg_window *ret);

/* ---- live observation ---- */

/* A thread's activity. */
enum vg_cpu_doing {
    VG_CPU_NOTHING, /* sleeping or unknown */
    VG_CPU_RUNS,
    VG_CPU_RUNS_GUEST, /* in its guest */
    VG_CPU_WAITS_PREEMPTED,
    VG_CPU_WAITS_WOKEN,
    VG_CPU_GONE /* it has ended; the last change reported for it */
};

struct vg_cpu_change {
    const struct vg_thread *thread; /* valid until VG_CPU_GONE is reported */
    enum vg_cpu_doing doing;
    int32_t cpu; /* where it runs or waits, or was last; or VG_NONE */
    int64_t t_ns;
    bool taken;                    /* PREEMPTED: the preempting thread is known: */
    const struct vg_thread *taker; /* NULL if the CPU is idle */
};

/* Called from within the feed whenever a thread changes its activity or its CPU. A thread's
 * changes come in time order, sometimes twice. They add up to its figures exactly, to the
 * nanosecond. The callback must not change the topology. */
typedef void vg_cpu_change_fn(void *data, const struct vg_cpu_change *change);

/* Sets the only observer. It first receives each thread's current activity. NULL removes it. */
void vg_cpu_ledger_watch(vg_cpu_ledger *ledger, vg_cpu_change_fn *fn, void *data);

#endif
