/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that is touched for the first time by several threads, before it is written to: the kernel
 * clears it then, which takes longer than writing.
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

/* Begins to touch SIZE bytes at BASE, which begins a page. Whoever writes meanwhile does no harm.
 */
void vg_cl_warm_begin(struct vg_cl_warm *warm, unsigned char *base, size_t size);

/* Ends it, done or not. */
void vg_cl_warm_end(struct vg_cl_warm *warm);

#endif
