/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows of a window reader (trace/window-read.h) as reports: what replaying a recording and
 * reading a live session have in common. One thread.
 */
#ifndef VG_COLLECTORS_WINDOW_REPORT_H
#define VG_COLLECTORS_WINDOW_REPORT_H

#include "collectors/report.h"
#include "trace/window-read.h"

/* What was spent and read up to the end of the last window, and whose windows they are. */
struct vg_window_meter {
    const char *collector; /* its name; static */
    const char *source;    /* as in struct vg_provenance; borrowed */
    const char *series;
    int64_t cpu_ns; /* of the thread */
    uint64_t events;
};

/* Before the first window: CPU time counts from now on, events from the first one. */
void vg_window_meter_start(struct vg_window_meter *meter);

/* Every measure is of the collector; confidence is the part of the records that were not lost. */
struct vg_report *vg_window_report(struct vg_window_meter *meter, const vg_window_reader *reader,
                                   int64_t clock_offset_ns, struct vg_window *take_window);

#endif
