/* SPDX-License-Identifier: Apache-2.0
 *
 * The store's state, shared by the callers' part (store.c) and the writing thread's
 * (store-thread.c).
 */
#ifndef VG_STORE_STORE_PRIVATE_H
#define VG_STORE_STORE_PRIVATE_H

#include <pthread.h>

#include "base/log.h"
#include "model/trouble.h"
#include "store/store-ring.h"
#include "store/store-write.h"
#include "store/store.h"

/* Parts that fail independently: a minute sum that cannot be written does not delay windows. */
enum vg_store_part { VG_PART_WINDOWS, VG_PART_SUMS, VG_PART_MAX };

struct vg_store_trouble {
    bool failing;
    int64_t retry_ns;          /* monotonic */
    uint64_t dropped;          /* number of dropped windows when the problem started */
    struct vg_log_turns turns; /* the thread's */
    enum vg_trouble code;
    char reason[512];
};

struct vg_store {
    char *directory;
    char *vfs;
    int64_t retry_ns;
    vg_thread *thread;
    vg_store_pool *readers;

    /* These belong to the thread. */
    vg_thread *self;
    int64_t end_ns; /* monotonic, when the thread abandons waiting windows and ends; 0 if it is to
                       continue */
    struct vg_store_writer writer;
    int lock_fd;
    bool recovered;
    bool sums_left;        /* a round was incomplete */
    int64_t next_clean_ns; /* monotonic */
    int64_t next_bytes_ns;

    pthread_mutex_t lock; /* protects everything below */
    pthread_cond_t work;  /* wakes the thread */
    pthread_cond_t done;  /* wakes callers that wait for the thread */
    struct vg_store_options limits;
    struct vg_store_ring ring;
    struct vg_store_cast *cast; /* of the newest window */
    bool opening;
    struct vg_store_trouble troubles[VG_PART_MAX];
    uint64_t failures;
    int64_t bytes;
    int64_t free_bytes;                /* -1 if unknown */
    int64_t expired_ns[VG_STORED_MAX]; /* same as in vg_store_health */
};

/* Run the thread, and wake it from a wait; arg is the store. */
void vg_store_thread_run(vg_thread *self, void *arg);
void vg_store_thread_wake(void *arg);

#endif
