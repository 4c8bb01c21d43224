/* SPDX-License-Identifier: Apache-2.0
 *
 * The store's state, shared by who puts and asks (store.c) and by the thread that writes
 * (store-thread.c).
 */
#ifndef VG_STORE_STORE_PRIVATE_H
#define VG_STORE_STORE_PRIVATE_H

#include <pthread.h>

#include "base/log.h"
#include "store/store-ring.h"
#include "store/store-write.h"
#include "store/store.h"

/* What can fail on its own: that the sum of a minute cannot be written keeps no window waiting. */
enum vg_store_part { VG_PART_WINDOWS, VG_PART_SUMS, VG_PART_MAX };

struct vg_store_trouble {
    bool failing;
    int64_t retry_ns; /* monotonic */
    uint64_t dropped; /* windows, when it began */
    struct vg_log_site site;
    char reason[512];
};

struct vg_store {
    char *directory;
    char *vfs;
    int64_t retry_ns;
    vg_thread *thread;
    vg_store_pool *readers;

    /* Of the thread. */
    vg_thread *self;
    int64_t end_ns; /* monotonic; when it gives up what waits; 0: it goes on */
    struct vg_store_writer writer;
    int lock_fd;
    bool recovered;
    bool sums_left;        /* of a round that was cut short */
    int64_t next_clean_ns; /* monotonic */
    int64_t next_bytes_ns;

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t work;  /* for the thread */
    pthread_cond_t done;  /* for those who wait for it */
    struct vg_store_options limits;
    struct vg_store_ring ring;
    struct vg_store_cast *cast; /* of the newest window */
    bool opening;
    struct vg_store_trouble troubles[VG_PART_MAX];
    uint64_t failures;
    int64_t bytes;
    int64_t free_bytes; /* -1: not known */
};

/* The thread and what gets it out of a wait; arg is the store. */
void vg_store_thread_run(vg_thread *self, void *arg);
void vg_store_thread_wake(void *arg);

#endif
