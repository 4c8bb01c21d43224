/* SPDX-License-Identifier: Apache-2.0
 *
 * Touches memory for the first time in several threads, before it is written. The kernel clears it
 * at the first touch, which takes longer than writing.
 */
#ifndef VG_OPENCL_TRACK_WARM_H
#define VG_OPENCL_TRACK_WARM_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include <stdatomic.h>

#define VG_CL_WARM_THREADS 8

struct vg_cl_warm {
    unsigned char *base;
    size_t size;
    atomic_size_t next;
    atomic_bool is_over;
    pthread_t threads[VG_CL_WARM_THREADS];
    unsigned n;
};

/* Starts to touch SIZE bytes at BASE, which must be page-aligned. Concurrent writes are safe. */
void vg_cl_warm_begin(struct vg_cl_warm *warm, unsigned char *base, size_t size);

/* Stops touching, complete or not. */
void vg_cl_warm_end(struct vg_cl_warm *warm);

#endif
