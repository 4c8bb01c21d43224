/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes reports of the windows of a window reader (trace/window-read.h): the common part of
 * replaying a recording and reading a live session. One thread.
 */
#ifndef VG_COLLECTORS_WINDOW_REPORT_H
#define VG_COLLECTORS_WINDOW_REPORT_H

#include "collectors/report.h"
#include "trace/window-read.h"

/* The effort and the records up to the end of the last window, and the windows' collector. */
struct vg_window_meter {
    const char *collector; /* name of the collector; static */
    const char *source;    /* as in struct vg_provenance; borrowed */
    const char *series;
    int64_t cpu_ns; /* of the thread */
    uint64_t events;
};

/* Must be called before the first window. CPU time is counted from now on, and events from the
 * first event. */
void vg_window_meter_start(struct vg_window_meter *meter);

/* Makes the report of a window. All measures come from the collector; confidence is the part of the
 * records that were not lost. */
struct vg_report *vg_window_report(struct vg_window_meter *meter, const vg_window_reader *reader,
                                   int64_t clock_offset_ns, struct vg_window *take_window);

#endif
