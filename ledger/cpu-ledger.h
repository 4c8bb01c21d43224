/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPU ledger: who ran, who waited and for whom. It is fed events in time order and keeps, for
 * every thread, the figures of model/cpu-figures.h, and for every thread of a VM which aggressor
 * held the CPU while it waited.
 *
 * A thread is unseen, running on a CPU, waiting for one (after a preemption or a wakeup) or
 * blocked. Time of a thread whose state became unknown is blocked time, "the rest". A record that
 * contradicts the state is counted as a discontinuity and believed; but for records of no interest
 * (VG_EVENT_OTHER) of the thread that left the CPU last, which it writes after its sched_switch.
 * What happens on a CPU while its records are lost is not observed, of threads that are woken
 * there, too.
 *
 * One period is open at a time; windows are cut out of it. Figures of a window and of the period
 * come from the same counters, so the windows of a period sum up to it exactly.
 * One thread at a time; no I/O, no clock.
 */
#ifndef VG_LEDGER_CPU_LEDGER_H
#define VG_LEDGER_CPU_LEDGER_H

#include "model/cpu-figures.h"
#include "model/topology.h"
#include "model/window.h"

typedef struct vg_cpu_ledger vg_cpu_ledger;

/* topology is borrowed and must outlive the ledger, which feeds it as well. */
vg_cpu_ledger *vg_cpu_ledger_new(vg_topology *topology);
void vg_cpu_ledger_free(vg_cpu_ledger *ledger);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_cpu_ledger, vg_cpu_ledger_free)

/* sched_waking stands in for sched_wakeup only where the recording has no sched_wakeup.
 * Off at first. */
void vg_cpu_ledger_use_waking(vg_cpu_ledger *ledger, bool use);

/* Takes one event. Its time must not be before that of the last one; if it is, it counts as a
 * discontinuity and is taken at the last one's time. */
void vg_cpu_ledger_feed(vg_cpu_ledger *ledger, const struct vg_event *event);

/* What is known of a thread without a record of it: that it sleeps, runs on the CPU, or waits for
 * it. */
enum vg_assumed { VG_ASSUMED_BLOCKED, VG_ASSUMED_RUNNING, VG_ASSUMED_WAITING };

/* Believes that the thread has been so since then, as far as that lies in the open window, and
 * not before what is known to be lost; a wait is one after a preemption. cpu may be VG_NONE. false:
 * records have told how it is, and are believed more. They are fed up to now. */
bool vg_cpu_ledger_assume(vg_cpu_ledger *ledger, int32_t tid, enum vg_assumed assumed, int32_t cpu,
                          int64_t since_ns);

/* Starts a period at time t: intervals open at t are clipped to it and counted, all figures are
 * zero. Without this call the period starts at the first event. */
void vg_cpu_ledger_begin(vg_cpu_ledger *ledger, int64_t t_ns);

/* Closes a window at t (not before the last event): what happened since the last close, or since
 * the period began. The caller owns *ret and clears it with vg_window_clear(). with_tasks adds
 * every thread. Threads that ended and are no vCPUs are forgotten afterwards, unless keep_tasks
 * was asked for with vg_cpu_ledger_keep_tasks(). */
void vg_cpu_ledger_close_window(vg_cpu_ledger *ledger, int64_t t_ns, bool with_tasks,
                                struct vg_window *ret);

/* The period from its begin to t (not before the last event). The ledger goes on. */
void vg_cpu_ledger_read_period(vg_cpu_ledger *ledger, int64_t t_ns, bool with_tasks,
                               struct vg_window *ret);

/* Keep ended threads of the host for the figures of the whole period (memory grows with them). */
void vg_cpu_ledger_keep_tasks(vg_cpu_ledger *ledger, bool keep);

/* Only windows will be read, never the period: what is over is forgotten with the window in which
 * it ended, so that memory does not grow however long it goes on. A VM that was forgotten is in no
 * later window. */
void vg_cpu_ledger_windows_only(vg_cpu_ledger *ledger, bool windows_only);

/* What the period, up to t (not before the last event), says of each VM's vCPUs together and of
 * nothing else, for who looks more often than windows are closed: nothing is settled, so who lost
 * how much to whom comes out as if nobody had looked. */
void vg_cpu_ledger_peek(const vg_cpu_ledger *ledger, int64_t t_ns, struct vg_window *ret);

/* ---- as it happens ---- */

/* What a thread does. */
enum vg_cpu_doing {
    VG_CPU_NOTHING, /* it sleeps, or that is not known */
    VG_CPU_RUNS,
    VG_CPU_RUNS_GUEST, /* inside of its guest */
    VG_CPU_WAITS_PREEMPTED,
    VG_CPU_WAITS_WOKEN,
    VG_CPU_GONE /* it has ended: the last that is told of it */
};

struct vg_cpu_change {
    const struct vg_thread *thread; /* good until it is told to be gone */
    enum vg_cpu_doing doing;
    int32_t cpu; /* that it runs on or waits for, else was on last; or VG_NONE */
    int64_t t_ns;
    bool taken;                    /* PREEMPTED: it is known for whom: */
    const struct vg_thread *taker; /* NULL: for nobody, the CPU is idle */
};

/* Called from within the feed whenever a thread begins to do something else, or the same on another
 * CPU; of each thread in the order of time, sometimes twice. What was told of a thread adds up to
 * its figures, to the nanosecond. It must not change the topology. */
typedef void vg_cpu_change_fn(void *data, const struct vg_cpu_change *change);

/* From now on, one for all; at first what each thread does now. NULL: nobody any more. */
void vg_cpu_ledger_watch(vg_cpu_ledger *ledger, vg_cpu_change_fn *fn, void *data);

#endif
