/* SPDX-License-Identifier: Apache-2.0
 *
 * Limits the device memory that one VM's clients use together. The proxy and the clients'
 * processes share the pool, and each process writes to its own place. A client first adds the
 * memory that it is about to allocate, and subtracts it again if the sum exceeds the limit. Two
 * clients that do so concurrently may both be refused, but they never exceed the limit together.
 */
#ifndef VG_OPENCL_SERVE_POOL_H
#define VG_OPENCL_SERVE_POOL_H

#include <stdint.h>

#include <stdatomic.h>

#define VG_SERVE_POOL_MAX 4096 /* clients */

struct vg_serve_pool {
    _Atomic uint64_t most; /* bytes; UINT64_MAX if unlimited. Written by the proxy */
    _Atomic unsigned n;    /* number of places used until now. Written by the proxy */
    _Atomic uint64_t has[VG_SERVE_POOL_MAX];
};

#endif
