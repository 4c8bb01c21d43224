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
#ifndef VG_MODEL_CPU_LEDGER_H
#define VG_MODEL_CPU_LEDGER_H

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

#endif
