/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "store/store-ring.h"

#include "store/store-time.h"

void
vg_store_ring_init(struct vg_store_ring *ring, guint capacity)
{
    *ring = (struct vg_store_ring){.capacity = capacity};
    g_queue_init(&ring->windows);
}

void
vg_store_ring_clear(struct vg_store_ring *ring)
{
    g_queue_clear_full(&ring->windows, vg_store_window_unref);
}

static bool
is_committed(const struct vg_store_window *window)
{
    return window->committed;
}

static bool
is_idle(const struct vg_store_window *window)
{
    return !window->busy;
}

static GList *
store_ring_find(const struct vg_store_ring *ring,
                bool (*fits)(const struct vg_store_window *window))
{
    GList *link = ring->windows.head;

    while (link && !fits(link->data))
        link = link->next;
    return link;
}

void
vg_store_ring_put(struct vg_store_ring *ring, struct vg_store_window *take_window)
{
    if (ring->windows.length >= ring->capacity) {
        /* While the disk works, this is the head. */
        GList *link =
            ring->pending == ring->windows.length ? NULL : store_ring_find(ring, is_committed);
        if (!link && (link = store_ring_find(ring, is_idle))) {
            ring->dropped++;
            ring->pending--;
        }
        if (link) {
            vg_store_window_unref(link->data);
            g_queue_delete_link(&ring->windows, link);
        }
    }
    take_window->number = ++ring->numbers;
    ring->pending++;
    g_queue_push_tail(&ring->windows, take_window);
}

static bool
is_among(const GArray *days, int64_t day)
{
    for (guint i = 0; i < days->len; i++) {
        if (g_array_index(days, int64_t, i) == day)
            return true;
    }
    return false;
}

struct vg_store_window *
vg_store_ring_next(struct vg_store_ring *ring, const GArray *skip_days)
{
    guint pending = ring->pending;

    /* Search backwards: normally only the newest windows are waiting. */
    struct vg_store_window *next = NULL;
    for (GList *link = ring->windows.tail; link && pending > 0; link = link->prev) {
        struct vg_store_window *window = link->data;
        if (window->committed)
            continue;
        pending--;
        if (!is_among(skip_days, vg_store_stamp(VG_STORE_WINDOWS, window->end_ns)))
            next = window;
    }
    if (!next)
        return NULL;
    next->busy = true;
    return vg_store_window_ref(next);
}

void
vg_store_ring_done(struct vg_store_ring *ring, struct vg_store_window *take_window, bool committed)
{
    take_window->busy = false;
    if (committed) {
        take_window->committed = true;
        ring->pending--;
        ring->committed++;
        ring->newest_ns = MAX(ring->newest_ns, take_window->end_ns);
    }
    vg_store_window_unref(take_window);
}

bool
vg_store_ring_waits(const struct vg_store_ring *ring, uint64_t number)
{
    for (GList *link = ring->windows.head; link; link = link->next) {
        const struct vg_store_window *window = link->data;
        if (window->number > number)
            return false;
        if (!window->committed)
            return true;
    }
    return false;
}

GPtrArray *
vg_store_ring_copy(const struct vg_store_ring *ring, bool all)
{
    guint left = all ? ring->windows.length : ring->pending;
    GPtrArray *copy = g_ptr_array_new_full(left, vg_store_window_unref);

    /* The waiting windows are the newest: copy them from the tail to their positions. */
    g_ptr_array_set_size(copy, (int)left);
    for (GList *link = ring->windows.tail; link && left > 0; link = link->prev) {
        struct vg_store_window *window = link->data;
        if (all || !window->committed)
            copy->pdata[--left] = vg_store_window_ref(window);
    }
    return copy;
}
