/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VG_OPENCL_BASE_CLOCK_H
#define VG_OPENCL_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Ns of CLOCK_MONOTONIC. */
static inline int64_t
vg_cl_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

#endif
