/* SPDX-License-Identifier: Apache-2.0
 *
 * The newest windows, whether they are on disk yet or not. The caller holds the lock.
 */
#ifndef VG_STORE_STORE_RING_H
#define VG_STORE_STORE_RING_H

#include "store/store-window.h"

struct vg_store_ring {
    GQueue windows; /* struct vg_store_window, in put order */
    guint capacity;
    uint64_t numbers; /* number of windows until now; the first window has 1 */
    guint pending;    /* number of windows that are not committed */
    uint64_t dropped;
    uint64_t committed;
    int64_t newest_ns; /* end of the newest committed window */
};

void vg_store_ring_init(struct vg_store_ring *ring, guint capacity);
void vg_store_ring_clear(struct vg_store_ring *ring);

/* Puts a window. If the ring is full, removes the oldest window that is on disk. If none is, drops
 * and counts the oldest window that is not being written. */
void vg_store_ring_put(struct vg_store_ring *ring, struct vg_store_window *take_window);

/* Returns the oldest window that is waiting to be written and whose day (int64_t) is not in
 * skip_days, or NULL. Returns a reference; the window is busy until vg_store_ring_done(). */
struct vg_store_window *vg_store_ring_next(struct vg_store_ring *ring, const GArray *skip_days);
void vg_store_ring_done(struct vg_store_ring *ring, struct vg_store_window *take_window,
                        bool committed);

/* Returns whether any window up to this number is waiting to be written. */
bool vg_store_ring_waits(const struct vg_store_ring *ring, uint64_t number);

/* Returns references to the uncommitted windows, or to all windows, in the order of their puts. */
GPtrArray *vg_store_ring_copy(const struct vg_store_ring *ring, bool all);

#endif
