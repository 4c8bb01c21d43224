/* SPDX-License-Identifier: Apache-2.0
 *
 * A bounded queue of pointers between threads. What happens when it is full is decided when it is
 * made. Any thread may call any function, but for free.
 */
#ifndef VG_BASE_QUEUE_H
#define VG_BASE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

enum vg_queue_when_full {
    VG_QUEUE_BLOCK, /* the putter waits: for what must not get lost */
    VG_QUEUE_DROP   /* the new item is freed and counted: for what comes again */
};

typedef struct vg_queue vg_queue;

struct vg_queue_stats {
    size_t length;
    size_t high_water; /* longest it ever was */
    uint64_t dropped;
};

/* capacity >= 1; free_item frees items that nobody gets. */
vg_queue *vg_queue_new(size_t capacity, enum vg_queue_when_full when_full,
                       GDestroyNotify free_item);
void vg_queue_free(vg_queue *queue);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_queue, vg_queue_free)

/* false: the queue was closed, or full and drops; the item is then freed. */
bool vg_queue_put(vg_queue *queue, void *take_item);

/* The oldest item, or NULL when none came for timeout_ns (0: do not wait), or when the queue is
 * closed and empty. */
void *vg_queue_get(vg_queue *queue, int64_t timeout_ns);

/* Items put from now on are freed; waiting putters and getters return. What is in it stays. */
void vg_queue_close(vg_queue *queue);

/* A file descriptor that is readable while the queue has items, for an event loop; owned by the
 * queue. */
int vg_queue_fd(const vg_queue *queue);

/* Called by the thread that put an item, which may be in other hands by then, with the length that
 * the queue then had for the first time. Calls of several threads may overtake each other. To be
 * set before the queue is shared. */
void vg_queue_watch_high_water(vg_queue *queue, void (*on_high_water)(void *data, size_t length),
                               void *data);

void vg_queue_read_stats(vg_queue *queue, struct vg_queue_stats *ret);

#endif
