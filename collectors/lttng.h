/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a live session of LTTng from a relay daemon, and makes the windows of it that
 * `vgpuctl analyze` makes of a recording, on the grid of this host's CLOCK_MONOTONIC. The
 * collector's name is "lttng". While nobody answers, it tries again after 1 s, and then ever more
 * seldom, every 30 s in the end. Windows that it could not see from their begin to their end are
 * missing, and counted, not zero.
 */
#ifndef VG_COLLECTORS_LTTNG_H
#define VG_COLLECTORS_LTTNG_H

#include "collectors/collector.h"
#include "collectors/window-grid.h"
#include "trace/alias.h"

struct vg_lttng_live_options {
    const char *url;   /* net://RELAY[:PORT]/host/HOST/SESSION; without a session if `create` */
    bool is_here;      /* the traced host is this one, whose /proc tells the VMs */
    bool create;       /* make a session of this host's kernel, and destroy it at the end */
    const char *relay; /* create: net://HOST[:CONTROL[:DATA]], to which LTTng sends records */
    int64_t timer_us;  /* create: how often it sends them */
    int64_t window_ns;
    vg_window_grid *grid; /* is_here: when windows end, which others share; NULL: one of its own */
    int64_t lag_ns;       /* how much later than others a window may come */
    const char *proc;     /* "/proc" but in tests */
    vg_aliases *aliases;  /* other names of events, or NULL */
};

/* Makes the collector; options are copied. NULL and VG_E_INVALID if the URL is malformed, or does
 * not fit the other options. */
vg_collector *vg_lttng_new(const struct vg_lttng_live_options *options, GError **err);

#endif
