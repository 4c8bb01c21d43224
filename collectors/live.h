/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures this host's VMs in every window, with the best source that works. The sources form a
 * ladder, best first. If a source fails, the next replaces it immediately, and it is retried after
 * a delay that grows each time.
 *
 * A source that exceeds the budget is treated in a similar way. After several windows over the
 * budget, it reduces its effort. After another minute over the budget, a cheaper source replaces
 * it. After a minute below half the budget, the effort increases again. The delay is a whole minute
 * because the cheapest source cannot determine what ran while a VM waited.
 *
 * Windows end at multiples of window_ns since the epoch (collectors/window-grid.h). A window with a
 * change to a lower source cannot be reported, because nothing was measured at its start. That
 * window is missing, which the next window reports.
 */
#ifndef VG_COLLECTORS_LIVE_H
#define VG_COLLECTORS_LIVE_H

#include "collectors/collector.h"
#include "collectors/cpu-source.h"
#include "collectors/window-grid.h"

#define VG_LIVE_SOURCES_MAX 4

struct vg_live_options {
    const char *proc; /* "/proc" except in tests */
    int64_t window_ns;
    vg_window_grid *grid; /* window ends shared with other collectors; NULL for a private grid */
    double budget;        /* CPU seconds per second that measuring may use; 0 if unlimited */
    int64_t retry_ns;     /* first delay before a failed source is retried; 0 for 30 s */
    int64_t patience_ns;  /* time over the budget before a source is replaced, and below half of it
                             before the effort increases; 0 for 60 s */
};

/* Returns the number of cores that measuring may use on a host with this number of CPUs: the
 * larger of a percentage of one CPU and a percentage of each CPU. Returns 0 (no limit) if the
 * first is 0. */
static inline double
vg_live_budget(double percent, double percent_of_each_cpu, long cpus)
{
    if (percent <= 0)
        return 0;
    return MAX(percent, percent_of_each_cpu * (double)cpus) / 100;
}

/* Creates the collector. Takes the sources, best first. */
vg_collector *vg_live_new(const struct vg_live_options *options, vg_cpu_source *const *take_sources,
                          unsigned n_sources);

#endif
