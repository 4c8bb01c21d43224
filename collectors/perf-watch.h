/* SPDX-License-Identifier: Apache-2.0
 *
 * The VMs that the perf source measures: puts the scan's findings into the topology, and what /proc
 * says of vCPUs without events into the ledger; and gives windows of the ledger the numbers and
 * names of the scan. One thread at a time.
 */
#ifndef VG_COLLECTORS_PERF_WATCH_H
#define VG_COLLECTORS_PERF_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "base/thread.h"
#include "collectors/guest-silence.h"
#include "ledger/cpu-ledger.h"

typedef struct vg_perf_watch vg_perf_watch;

vg_perf_watch *vg_perf_watch_new(const char *proc, int64_t tick_ns);
void vg_perf_watch_free(vg_perf_watch *watch); /* NULL is fine */

/* Takes the present VMs. vms: struct vg_proc_vm *. */
void vg_perf_watch_see(vg_perf_watch *watch, vg_topology *topology, const GPtrArray *vms,
                       vg_thread *self);

/* Tells the ledger which vCPUs slept when they were looked at, up to this time. Called before an
 * event of this time, and at the end of what there is. */
void vg_perf_watch_settle(vg_perf_watch *watch, vg_cpu_ledger *ledger, int64_t t_ns);

/* Looks again at the vCPUs of which nothing is known yet. */
void vg_perf_watch_assume(vg_perf_watch *watch, vg_cpu_ledger *ledger);

/* Begins anew after a loss: any vCPU may have changed unseen. */
void vg_perf_watch_begin_anew(vg_perf_watch *watch);

/* Completes a window that the ledger closed. listening: entries into guests are counted. */
void vg_perf_watch_finish(vg_perf_watch *watch, struct vg_window *window,
                          struct vg_guest_silence *silence, bool listening);

/* Forgets VMs that were not seen the last time, after their last window; calls ended for each
 * process. */
void vg_perf_watch_forget_gone(vg_perf_watch *watch, void (*ended)(void *data, int32_t pid),
                               void *data);

#endif
