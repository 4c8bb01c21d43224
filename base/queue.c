/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/queue.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"

struct vg_queue {
    pthread_mutex_t lock;
    pthread_cond_t not_empty;
    pthread_cond_t not_full;
    void **items; /* ring of capacity */
    size_t capacity;
    size_t first;
    size_t length;
    size_t high_water;
    uint64_t dropped;
    enum vg_queue_when_full when_full;
    GDestroyNotify free_item;
    bool closed;
    void (*on_high_water)(void *data, size_t length);
    void *on_high_water_data;
    int fd; /* its counter is 1 while there are items, otherwise 0 */
};

vg_queue *
vg_queue_new(size_t capacity, enum vg_queue_when_full when_full, GDestroyNotify free_item)
{
    vg_queue *queue = g_new0(vg_queue, 1);

    pthread_mutex_init(&queue->lock, NULL);
    vg_cond_init(&queue->not_empty);
    vg_cond_init(&queue->not_full);
    queue->items = g_new0(void *, capacity);
    queue->capacity = capacity;
    queue->when_full = when_full;
    queue->free_item = free_item;
    queue->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (queue->fd < 0)
        vg_bug("no file descriptor is left for a queue");
    return queue;
}

void
vg_queue_free(vg_queue *queue)
{
    if (!queue)
        return;
    for (; queue->length > 0; queue->length--) {
        queue->free_item(queue->items[queue->first]);
        queue->first = (queue->first + 1) % queue->capacity;
    }
    close(queue->fd);
    pthread_cond_destroy(&queue->not_full);
    pthread_cond_destroy(&queue->not_empty);
    pthread_mutex_destroy(&queue->lock);
    g_free(queue->items);
    g_free(queue);
}

/* Appends an item. Called under the lock. Sets *ret_high to the length if it is a new maximum. */
static bool
queue_append(vg_queue *queue, void *item, size_t *ret_high)
{
    while (!queue->closed && queue->length == queue->capacity && queue->when_full == VG_QUEUE_BLOCK)
        pthread_cond_wait(&queue->not_full, &queue->lock);
    if (queue->closed)
        return false;
    if (queue->length == queue->capacity) {
        queue->dropped++;
        return false;
    }
    queue->items[(queue->first + queue->length) % queue->capacity] = item;
    queue->length++;
    if (queue->length > queue->high_water)
        *ret_high = queue->high_water = queue->length;
    if (queue->length == 1)
        (void)!eventfd_write(queue->fd, 1);
    pthread_cond_signal(&queue->not_empty);
    return true;
}

bool
vg_queue_put(vg_queue *queue, void *take_item)
{
    size_t high = 0;

    pthread_mutex_lock(&queue->lock);
    bool put = queue_append(queue, take_item, &high);
    pthread_mutex_unlock(&queue->lock);
    if (high > 0 && queue->on_high_water)
        queue->on_high_water(queue->on_high_water_data, high);
    if (!put)
        queue->free_item(take_item);
    return put;
}

void *
vg_queue_get(vg_queue *queue, int64_t timeout_ns)
{
    int64_t until = timeout_ns > 0 ? vg_clock_monotonic_ns() + timeout_ns : 0;
    eventfd_t unused;

    VG_LOCK_SCOPE(&queue->lock);
    while (queue->length == 0) {
        if (queue->closed || timeout_ns <= 0 ||
            !vg_cond_wait_until(&queue->not_empty, &queue->lock, until))
            break;
    }
    if (queue->length == 0)
        return NULL;
    void *item = queue->items[queue->first];
    queue->first = (queue->first + 1) % queue->capacity;
    if (--queue->length == 0)
        (void)!eventfd_read(queue->fd, &unused);
    pthread_cond_signal(&queue->not_full);
    return item;
}

void
vg_queue_close(vg_queue *queue)
{
    VG_LOCK_SCOPE(&queue->lock);
    queue->closed = true;
    pthread_cond_broadcast(&queue->not_empty);
    pthread_cond_broadcast(&queue->not_full);
}

void
vg_queue_watch_high_water(vg_queue *queue, void (*on_high_water)(void *data, size_t length),
                          void *data)
{
    queue->on_high_water = on_high_water;
    queue->on_high_water_data = data;
}

int
vg_queue_fd(const vg_queue *queue)
{
    return queue->fd;
}

void
vg_queue_read_stats(vg_queue *queue, struct vg_queue_stats *ret)
{
    VG_LOCK_SCOPE(&queue->lock);
    *ret = (struct vg_queue_stats){
        .length = queue->length,
        .high_water = queue->high_water,
        .dropped = queue->dropped,
    };
}
