/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads the tracer, and converts the daemon's structs for it. Without a tracer, the tracing
 * functions do nothing, at the cost of one branch.
 */
#ifndef VG_DAEMON_TRACE_H
#define VG_DAEMON_TRACE_H

#include <stdint.h>

#include <glib.h>

#include "api/backend.h"
#include "daemon/trace-point.h"
#include "engine/gather.h"
#include "model/plan.h"

/* Loads the tracer (the installed tracer if path is empty) for the rest of the process's life. If
 * that fails, vgpud logs the reason and continues without a tracer. Called once, on the main
 * thread, before vgpud starts other threads. The tracer may run threads from now on. May take three
 * seconds if a session daemon does not answer. */
void vg_trace_start(const char *path);

/* Returns the tracer's state for /readyz, which always reports the tracer as ready, or NULL if no
 * tracer is configured. Any thread. */
struct vg_part_status *vg_trace_status(void);

/* Traces a window that has just been closed. replay: the window uses the recording's clock. */
void vg_trace_window(const struct vg_gathered *gathered, bool replay);

/* Traces the events that a source lost in a window. clock_offset_ns: add this to times of the
 * source's clock to get time since the epoch. */
void vg_trace_lost_events(const char *source, const struct vg_window *window,
                          int64_t clock_offset_ns);

/* Traces the VMs whose class has changed since the previous view, which is NULL at first. */
void vg_trace_scores(const vg_view *before, const vg_view *now);

void vg_trace_plan(const vg_plan *plan);
void vg_trace_queue(const char *name, uint64_t length, uint64_t limit);

#endif
