/* SPDX-License-Identifier: Apache-2.0
 *
 * What memory of the device the clients of one VM have together. It is shared by the proxy and the
 * VM's clients' processes, each of which writes its own place. A client that is about to take
 * memory writes that first, and takes it back if the sum is too much: so two that do this at once
 * may both be refused, and never both be let through.
 */
#ifndef VG_OPENCL_SERVE_POOL_H
#define VG_OPENCL_SERVE_POOL_H

#include <stdint.h>

#include <stdatomic.h>

#define VG_SERVE_POOL_MAX 4096 /* clients */

struct vg_serve_pool {
    _Atomic uint64_t most; /* bytes; UINT64_MAX: no limit. By the proxy */
    _Atomic unsigned n;    /* places that were ever taken. By the proxy */
    _Atomic uint64_t has[VG_SERVE_POOL_MAX];
};

#endif
