/* SPDX-License-Identifier: Apache-2.0
 *
 * The VMs that the perf source measures: what the scan says of them goes into the topology, what
 * /proc says of vCPUs to which nothing happens into the ledger, and windows of the ledger get the
 * numbers and names of the scan. One thread at a time.
 */
#ifndef VG_COLLECTORS_PERF_WATCH_H
#define VG_COLLECTORS_PERF_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "base/thread.h"
#include "collectors/guest-silence.h"
#include "model/cpu-ledger.h"

typedef struct vg_perf_watch vg_perf_watch;

vg_perf_watch *vg_perf_watch_new(const char *proc, int64_t tick_ns);
void vg_perf_watch_free(vg_perf_watch *watch); /* NULL is fine */

/* vms: struct vg_proc_vm *, those that there are now. */
void vg_perf_watch_see(vg_perf_watch *watch, vg_topology *topology, const GPtrArray *vms,
                       vg_thread *self);

/* Before an event of this time, or at the end of what there is: tells the ledger which vCPUs slept
 * at the times up to then at which they were looked at. */
void vg_perf_watch_settle(vg_perf_watch *watch, vg_cpu_ledger *ledger, int64_t t_ns);

/* Looks again at those of which nothing is known yet. */
void vg_perf_watch_assume(vg_perf_watch *watch, vg_cpu_ledger *ledger);

/* Something was lost: any of them may have changed unseen. */
void vg_perf_watch_begin_anew(vg_perf_watch *watch);

/* Completes a window that the ledger closed; listening: for entries into guests. */
void vg_perf_watch_finish(vg_perf_watch *watch, struct vg_window *window,
                          struct vg_guest_silence *silence, bool listening);

/* Those that were not seen the last time, after their last window; calls ended for each process. */
void vg_perf_watch_forget_gone(vg_perf_watch *watch, void (*ended)(void *data, int32_t pid),
                               void *data);

#endif
