/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads an LTTng live session from a relay daemon. It creates the same windows as `vgpuctl
 * analyze` does from a recording, on the grid of this host's CLOCK_MONOTONIC. The collector's name
 * is "lttng". If the relay daemon does not answer, it retries after 1 s and then at growing
 * intervals, up to 30 s. Windows that were not observed from start to end are missing and counted;
 * they are not reported as zero.
 */
#ifndef VG_COLLECTORS_LTTNG_H
#define VG_COLLECTORS_LTTNG_H

#include "collectors/collector.h"
#include "collectors/window-grid.h"
#include "trace/alias.h"

struct vg_lttng_live_options {
    const char *url;   /* net://RELAY[:PORT]/host/HOST/SESSION; without a session if `create` */
    bool is_here;      /* the traced host is this host, whose /proc shows the VMs */
    bool create;       /* create a session of this host's kernel, and destroy it at the end */
    const char *relay; /* create: net://HOST[:CONTROL[:DATA]], the destination of LTTng's records */
    int64_t timer_us;  /* create: LTTng's interval for sending them */
    int64_t window_ns;
    vg_window_grid
        *grid;      /* is_here: window ends shared with other collectors; NULL for a private grid */
    int64_t lag_ns; /* how much later than others a window may arrive */
    const char *proc;    /* "/proc" but in tests */
    vg_aliases *aliases; /* other names of events, or NULL */
};

/* Creates the collector; options are copied. Returns NULL and VG_E_INVALID if the URL is malformed
 * or does not fit the other options. */
vg_collector *vg_lttng_new(const struct vg_lttng_live_options *options, GError **err);

#endif
