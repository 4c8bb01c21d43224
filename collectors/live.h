/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures the VMs of this host, every window, with the best source that works: a ladder, whose
 * first rung is the best. A source that fails is left for the next one at once, and tried again
 * after a while that grows each time. The same goes for one that costs more than it may: after some
 * windows above the budget it measures less, after a minute above it even so a cheaper one is
 * taken, and after a minute below half of it, more is measured again. A minute, because the
 * cheapest source does not know who ran while a VM waited.
 *
 * Windows end at multiples of window_ns since the epoch (collectors/window-grid.h). A window in
 * which sources were changed downwards cannot be told, because nothing was measured at its begin;
 * it is missing, and the next one says so.
 */
#ifndef VG_COLLECTORS_LIVE_H
#define VG_COLLECTORS_LIVE_H

#include "collectors/collector.h"
#include "collectors/cpu-source.h"
#include "collectors/window-grid.h"

#define VG_LIVE_SOURCES_MAX 4

struct vg_live_options {
    const char *proc; /* "/proc" but in tests */
    int64_t window_ns;
    vg_window_grid *grid; /* when windows end, which others share; NULL: one of its own */
    double budget;        /* CPU seconds per second that measuring may take; 0: unlimited */
    int64_t retry_ns;     /* first pause before a failed source is tried again; 0: 30 s */
    int64_t patience_ns;  /* time above the budget before a source is left, and below half of it
                           * before more is measured; 0: 60 s */
};

/* Returns the cores that measuring may take on a host with so many CPUs: so many per cent of one,
 * or of each CPU, whichever is more; 0: no limit, whatever the other is. */
static inline double
vg_live_budget(double percent, double percent_of_each_cpu, long cpus)
{
    if (percent <= 0)
        return 0;
    return MAX(percent, percent_of_each_cpu * (double)cpus) / 100;
}

/* Makes the collector; takes the sources, best first. */
vg_collector *vg_live_new(const struct vg_live_options *options, vg_cpu_source *const *take_sources,
                          unsigned n_sources);

#endif
