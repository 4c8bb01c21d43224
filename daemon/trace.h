/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads the tracer, and says to it what the daemon's own structs mean. The functions that trace do
 * nothing, and cost one branch, while no tracer is loaded.
 */
#ifndef VG_DAEMON_TRACE_H
#define VG_DAEMON_TRACE_H

#include <stdint.h>

#include <glib.h>

#include "api/backend.h"
#include "daemon/trace-point.h"
#include "engine/gather.h"
#include "model/plan.h"

/* Loads the tracer (empty path: the one that is installed) for the rest of the process's life. If
 * it cannot be loaded, this is logged and vgpud goes on without. Main thread, once, before there
 * are other threads of ours; those of the tracer may run from now on. May take three seconds, if
 * there is a session daemon that does not answer. */
void vg_trace_start(const char *path);

/* How the tracer is doing, for /readyz: always ready. NULL: nobody wants one. Any thread. */
struct vg_part_status *vg_trace_status(void);

/* A window that was just closed; replay: its clock is the recording's. */
void vg_trace_window(const struct vg_gathered *gathered, bool replay);

/* What a source lost in a window, with the offset of its clock to the epoch. */
void vg_trace_lost_events(const char *source, const struct vg_window *window,
                          int64_t clock_offset_ns);

/* VMs whose class is not what it was in the view before (NULL: there was none). */
void vg_trace_scores(const vg_view *before, const vg_view *now);

void vg_trace_plan(const vg_plan *plan);
void vg_trace_queue(const char *name, uint64_t length, uint64_t limit);

#endif
