/* SPDX-License-Identifier: Apache-2.0
 *
 * Gathers the measurements of several collectors for the same time into one window. The windows of
 * all sources end at the same moments. A window is complete when all sources that are alive have
 * passed its end, or after one more window of grace, and the lag of those that are known to be
 * late and that it lacks. Later parts, and double ones, are counted and dropped, and so are the
 * windows that thus lack something. Windows come out in the order of time and do not overlap.
 *
 * A VM that several sources see (by the same UUID, otherwise by the same pid) becomes one, with the
 * CPU figures of the source that is most to be trusted. A part without CPU figures (besides, in its
 * provenance) completes those of others, even a longer one that it is a piece of, and it may be
 * longer than they are: then it is cut, and spread over those that are not closed. It makes a
 * window of its own only where no source with CPU figures lives, and only if there is anything in
 * it; otherwise the window is missing as it would be without that part. VMs get ids that hold for
 * all windows and are never given to another one. Pure; one thread at a time.
 */
#ifndef VG_ENGINE_GATHER_H
#define VG_ENGINE_GATHER_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "model/provenance.h"
#include "model/window.h"

#define VG_GATHER_SOURCES_MAX 16

/* The maximum number of windows of one source that wait; older ones are then closed without
 * waiting. */
#define VG_GATHER_PENDING_MAX 64

enum vg_gather_taken { VG_GATHER_TAKEN, VG_GATHER_LATE, VG_GATHER_DUPLICATE };

struct vg_gather_stats {
    uint64_t windows;
    uint64_t late;
    uint64_t duplicates;
    /* the number of windows that were closed without a source that was alive */
    uint64_t incomplete;
};

/* A closed window. */
struct vg_gathered {
    struct vg_window window;         /* the caller clears it */
    struct vg_provenance provenance; /* that of the most trusted source, with the cost of all */
    int64_t clock_offset_ns;
};

typedef struct vg_gather vg_gather;

/* Makes it. window_ns is the grace, without lag. */
vg_gather *vg_gather_new(int64_t window_ns);
void vg_gather_free(vg_gather *gather);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_gather, vg_gather_free)

/* Adds a source whose windows are waited for while it is alive, which it is at first. Returns its
 * number: 0, 1, ... */
unsigned int vg_gather_add_source(vg_gather *gather);
void vg_gather_set_alive(vg_gather *gather, unsigned int source, bool alive);

/* Sets how much later than those of others its windows come; 0 at first. */
void vg_gather_set_lag(vg_gather *gather, unsigned int source, int64_t lag_ns);

enum vg_gather_taken vg_gather_put(vg_gather *gather, unsigned int source,
                                   struct vg_window *take_window,
                                   const struct vg_provenance *provenance, int64_t clock_offset_ns);

/* Takes the oldest window that is complete, or whose grace is over at now (on the windows' clock).
 * Returns false if there is none. */
bool vg_gather_next(vg_gather *gather, int64_t now_ns, struct vg_gathered *ret);

void vg_gather_read_stats(const vg_gather *gather, struct vg_gather_stats *ret);

#endif
