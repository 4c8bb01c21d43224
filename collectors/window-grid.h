/* SPDX-License-Identifier: Apache-2.0
 *
 * The ends of windows on a live host: multiples of their length since the epoch, in UTC, so that
 * windows of two hosts cover the same seconds. Collectors that share a grid get the same
 * CLOCK_MONOTONIC times even if this machine's clock is adjusted in between. After the clock was
 * set, one window is shorter or longer, by at most half its length. Any thread.
 */
#ifndef VG_COLLECTORS_WINDOW_GRID_H
#define VG_COLLECTORS_WINDOW_GRID_H

#include <stdint.h>

#include <glib.h>

typedef struct vg_window_grid vg_window_grid;

vg_window_grid *vg_window_grid_new(int64_t window_ns);
vg_window_grid *vg_window_grid_ref(vg_window_grid *grid);
void vg_window_grid_unref(vg_window_grid *grid); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_window_grid, vg_window_grid_unref)

/* The end of a window. */
struct vg_window_end {
    int64_t at_ns;     /* CLOCK_MONOTONIC */
    int64_t offset_ns; /* plus this, it is a multiple of the length since the epoch */
};

/* Returns the first end after a CLOCK_MONOTONIC time. */
struct vg_window_end vg_window_grid_next(vg_window_grid *grid, int64_t after_ns);

/* Returns the last end at or before a time. */
struct vg_window_end vg_window_grid_last(vg_window_grid *grid, int64_t at_ns);

#endif
