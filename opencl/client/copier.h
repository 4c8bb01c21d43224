/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies between the program's memory and memory that it shares with the proxy, in two threads. One
 * thread alone is slower than the bus to a GPU. The second thread sleeps between transfers. The
 * calling thread never waits for it to wake up: both claim chunks, and either can copy all of them.
 */
#ifndef VG_OPENCL_CLIENT_COPIER_H
#define VG_OPENCL_CLIENT_COPIER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stdatomic.h>

struct client_copier {
    pthread_mutex_t busy; /* held during a copy; another thread then copies alone */
    pthread_mutex_t lock;
    pthread_cond_t wakes;
    pthread_t thread;
    bool has_thread, is_refused; /* under BUSY; refused: it is not tried again */
    atomic_bool is_asleep, is_closing;
    _Atomic uint64_t claim; /* number of the copy, and of the next chunk in its lower half */
    /* Valid while chunks are left: */
    unsigned char *_Atomic to;
    const unsigned char *_Atomic from;
    atomic_size_t size;
    atomic_uint done; /* chunks */
};

void vg_wire_copier_begin(struct client_copier *copier);

/* As memcpy(). Any thread. */
void vg_wire_copier_copy(struct client_copier *copier, void *to, const void *from, size_t size);

/* Ends the thread. No copy may be running. */
void vg_wire_copier_end(struct client_copier *copier);

/* Called in a forked child, which has no other thread. */
void vg_wire_copier_is_forked(struct client_copier *copier);

#endif
