/* SPDX-License-Identifier: Apache-2.0
 *
 * Joins the measurements of several collectors for the same period into one window. The windows of
 * all sources end at the same moments. A window is complete when all running sources have passed
 * its end, or after one more window of grace plus the lag of missing sources that are known to be
 * late. Later parts and duplicates are counted and dropped, and incomplete windows are counted.
 * Windows are returned in the order of time and do not overlap.
 *
 * A VM that several sources see (by the same UUID, otherwise by the same pid) becomes one VM, with
 * the CPU figures of the most trusted source. A part without CPU figures (besides, in its
 * provenance) completes the parts of others, even a longer one. If it is longer than they are, it
 * is cut and divided among the open windows. It makes its own window only if no source with CPU
 * figures is running, and only if it is not empty; otherwise the window is missing, as it would be
 * without the part. VMs get ids that are valid in all windows and never reused. Pure; one thread at
 * a time.
 */
#ifndef VG_ENGINE_GATHER_H
#define VG_ENGINE_GATHER_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "model/provenance.h"
#include "model/window.h"

#define VG_GATHER_SOURCES_MAX 16

/* Maximum number of waiting windows of one source; older ones are closed without waiting. */
#define VG_GATHER_PENDING_MAX 64

enum vg_gather_taken { VG_GATHER_TAKEN, VG_GATHER_LATE, VG_GATHER_DUPLICATE };

struct vg_gather_stats {
    uint64_t windows;
    uint64_t late;
    uint64_t duplicates;
    /* number of windows closed without a running source */
    uint64_t incomplete;
};

/* A closed window. */
struct vg_gathered {
    struct vg_window window;         /* the caller clears it */
    struct vg_provenance provenance; /* the most trusted source's, with the cost of all */
    int64_t clock_offset_ns;
};

typedef struct vg_gather vg_gather;

/* Creates it. window_ns is the grace, without lag. */
vg_gather *vg_gather_new(int64_t window_ns);
void vg_gather_free(vg_gather *gather);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_gather, vg_gather_free)

/* Adds a source, which is alive at first; windows wait for it while it is alive. Returns its
 * number: 0, 1, ... */
unsigned int vg_gather_add_source(vg_gather *gather);
void vg_gather_set_alive(vg_gather *gather, unsigned int source, bool alive);

/* Sets the additional delay of its windows; 0 at first. */
void vg_gather_set_lag(vg_gather *gather, unsigned int source, int64_t lag_ns);

enum vg_gather_taken vg_gather_put(vg_gather *gather, unsigned int source,
                                   struct vg_window *take_window,
                                   const struct vg_provenance *provenance, int64_t clock_offset_ns);

/* Returns the oldest window that is complete, or whose grace period has ended at now (on the
 * windows' clock). Returns false if there is none. */
bool vg_gather_next(vg_gather *gather, int64_t now_ns, struct vg_gathered *ret);

void vg_gather_read_stats(const vg_gather *gather, struct vg_gather_stats *ret);

#endif
