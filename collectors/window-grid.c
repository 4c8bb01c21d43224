/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/window-grid.h"

#include <pthread.h>

#include <glib.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/thread.h"

/* The number of stored ends, for collectors that report late. */
#define GRID_ENDS_MAX 256

struct vg_window_grid {
    atomic_int refs;
    int64_t window_ns;
    pthread_mutex_t lock; /* protects the rest */
    GArray *ends;         /* struct vg_window_end, ascending */
};

vg_window_grid *
vg_window_grid_new(int64_t window_ns)
{
    vg_window_grid *grid = g_new0(vg_window_grid, 1);

    atomic_init(&grid->refs, 1);
    grid->window_ns = window_ns;
    pthread_mutex_init(&grid->lock, NULL);
    grid->ends = g_array_new(FALSE, FALSE, sizeof(struct vg_window_end));
    return grid;
}

vg_window_grid *
vg_window_grid_ref(vg_window_grid *grid)
{
    atomic_fetch_add(&grid->refs, 1);
    return grid;
}

void
vg_window_grid_unref(vg_window_grid *grid)
{
    if (!grid || atomic_fetch_sub(&grid->refs, 1) != 1)
        return;
    g_array_unref(grid->ends);
    pthread_mutex_destroy(&grid->lock);
    g_free(grid);
}

static struct vg_window_end
window_grid_at(const vg_window_grid *grid, guint i)
{
    return g_array_index(grid->ends, struct vg_window_end, i);
}

/* Returns the first end that is at least least_ns after a time, with this offset to the epoch. */
static struct vg_window_end
window_grid_behind(const vg_window_grid *grid, int64_t at_ns, int64_t least_ns, int64_t offset_ns)
{
    const int64_t epoch_ns =
        ((at_ns + offset_ns + least_ns - 1) / grid->window_ns + 1) * grid->window_ns;

    return (struct vg_window_end){epoch_ns - offset_ns, offset_ns};
}

/* Appends ends until one is after this time. */
static void
window_grid_extend(vg_window_grid *grid, int64_t after_ns)
{
    const int64_t offset_ns = vg_clock_realtime_ns() - vg_clock_monotonic_ns();
    struct vg_window_end end = {INT64_MIN, 0};

    if (grid->ends->len > 0)
        end = window_grid_at(grid, grid->ends->len - 1);
    if (end.at_ns == INT64_MIN || (after_ns - end.at_ns) / grid->window_ns > GRID_ENDS_MAX) {
        g_array_set_size(grid->ends, 0);
        /* Add the previous end, so that each later time has an end before it. */
        end = window_grid_behind(grid, after_ns - grid->window_ns, 1, offset_ns);
        g_array_append_val(grid->ends, end);
    }
    while (end.at_ns <= after_ns) {
        end = window_grid_behind(grid, end.at_ns, grid->window_ns / 2, offset_ns);
        g_array_append_val(grid->ends, end);
    }
    if (grid->ends->len > GRID_ENDS_MAX)
        g_array_remove_range(grid->ends, 0, grid->ends->len - GRID_ENDS_MAX);
}

struct vg_window_end
vg_window_grid_next(vg_window_grid *grid, int64_t after_ns)
{
    VG_LOCK_SCOPE(&grid->lock);
    window_grid_extend(grid, after_ns);
    guint i = grid->ends->len - 1;
    while (i > 0 && window_grid_at(grid, i - 1).at_ns > after_ns)
        i--;
    const struct vg_window_end end = window_grid_at(grid, i);
    /* Before all stored ends: assume that the clock was always right. */
    return i > 0 || end.at_ns - after_ns <= grid->window_ns
               ? end
               : window_grid_behind(grid, after_ns, 1, end.offset_ns);
}

struct vg_window_end
vg_window_grid_last(vg_window_grid *grid, int64_t at_ns)
{
    VG_LOCK_SCOPE(&grid->lock);
    window_grid_extend(grid, at_ns);
    for (guint i = grid->ends->len; i > 0; i--) {
        const struct vg_window_end end = window_grid_at(grid, i - 1);
        if (end.at_ns <= at_ns)
            return end;
    }
    return window_grid_behind(grid, at_ns - grid->window_ns, 1, window_grid_at(grid, 0).offset_ns);
}
