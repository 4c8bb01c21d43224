/* SPDX-License-Identifier: Apache-2.0
 *
 * A bounded queue of pointers between threads. The behaviour when it is full is chosen at creation.
 * Any thread may call any function except vg_queue_free().
 */
#ifndef VG_BASE_QUEUE_H
#define VG_BASE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

enum vg_queue_when_full {
    VG_QUEUE_BLOCK, /* the caller waits, for items that must not be lost */
    VG_QUEUE_DROP   /* the new item is freed and counted, for items that will be sent again */
};

typedef struct vg_queue vg_queue;

struct vg_queue_stats {
    size_t length;
    size_t high_water; /* maximum of length */
    uint64_t dropped;
};

/* Creates a queue. capacity >= 1; free_item frees items that are never received. */
vg_queue *vg_queue_new(size_t capacity, enum vg_queue_when_full when_full,
                       GDestroyNotify free_item);
void vg_queue_free(vg_queue *queue);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_queue, vg_queue_free)

/* Adds an item. Returns false if the queue is closed, or is full and was created with
 * VG_QUEUE_DROP; the item is then freed. */
bool vg_queue_put(vg_queue *queue, void *take_item);

/* Returns the oldest item, or NULL if none arrived within timeout_ns (0 does not wait), or if the
 * queue is closed and empty. */
void *vg_queue_get(vg_queue *queue, int64_t timeout_ns);

/* Closes the queue: later items are freed, and waiting callers return. Items in the queue
 * remain. */
void vg_queue_close(vg_queue *queue);

/* Returns a file descriptor that is readable while the queue has items, for an event loop; owned by
 * the queue. */
int vg_queue_fd(const vg_queue *queue);

/* Sets a function that is called when the length reaches a new maximum. The thread that added an
 * item calls it; the item may already have been removed by then. Calls from several threads may
 * occur out of order. Must be called before the queue is shared. */
void vg_queue_watch_high_water(vg_queue *queue, void (*on_high_water)(void *data, size_t length),
                               void *data);

void vg_queue_read_stats(vg_queue *queue, struct vg_queue_stats *ret);

#endif
