/* SPDX-License-Identifier: Apache-2.0
 *
 * The VMs that the perf source measures. Adds the scan's VMs to the topology, and the state in
 * /proc of vCPUs without events to the ledger. Gives the ledger's windows the numbers and names of
 * the scan. One thread at a time.
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

/* Sets the current VMs. vms: struct vg_proc_vm *. */
void vg_perf_watch_see(vg_perf_watch *watch, vg_topology *topology, const GPtrArray *vms,
                       vg_thread *self);

/* Reports to the ledger which vCPUs were asleep when checked, up to this time. Called before an
 * event with this time and at the end of the available events. */
void vg_perf_watch_settle(vg_perf_watch *watch, vg_cpu_ledger *ledger, int64_t t_ns);

/* Checks the vCPUs that nothing is known about yet. */
void vg_perf_watch_assume(vg_perf_watch *watch, vg_cpu_ledger *ledger);

/* Resets the state after a loss, because any vCPU may have changed unnoticed. */
void vg_perf_watch_begin_anew(vg_perf_watch *watch);

/* Completes a window that the ledger closed. listening: guest entries are counted. */
void vg_perf_watch_finish(vg_perf_watch *watch, struct vg_window *window,
                          struct vg_guest_silence *silence, bool listening);

/* Forgets VMs that were missing in the last scan, after their last window. Calls ended for each
 * process. */
void vg_perf_watch_forget_gone(vg_perf_watch *watch, void (*ended)(void *data, int32_t pid),
                               void *data);

#endif
