/* SPDX-License-Identifier: Apache-2.0
 *
 * The libcuda functions whose calls are watched, and the arguments that are read from each call.
 * Only calls are seen, not results: a probe at a function's end would change the way that the
 * program returns. Pure.
 */
#ifndef VG_GUEST_CUDA_FUNCTIONS_H
#define VG_GUEST_CUDA_FUNCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An allocation of this size or more cannot be restored if another GPU may access it; 384 MiB
 * can. Measured with driver 580.159 on H200s. */
#define VG_CUDA_LARGE_BYTES ((uint64_t)512 << 20)

enum vg_cuda_tie {
    /* It uses another process's memory. */
    VG_CUDA_TIE_IMPORT = 1 << 0,
    /* It waits for another process's events. */
    VG_CUDA_TIE_EVENT = 1 << 1,
    /* It has memory that several GPUs write concurrently (NVLink SHARP). */
    VG_CUDA_TIE_MULTICAST = 1 << 2,
    /* It uses memory of another interface, such as Vulkan. */
    VG_CUDA_TIE_EXTERNAL = 1 << 3,
    /* It has unified memory. */
    VG_CUDA_TIE_MANAGED = 1 << 4,
    /* It offered its own memory to others, which alone is harmless. */
    VG_CUDA_TIE_EXPORT = 1 << 5,
    /* One of its GPUs may access a large allocation of another. No single call makes this tie. */
    VG_CUDA_TIE_PEER = 1 << 6,
    /* It set which GPUs may access a pool of memory. */
    VG_CUDA_TIE_POOL = 1 << 7,
};

/* The meaning of a call, and the values that are read from it. */
enum vg_cuda_says {
    /* The call alone makes a tie. Values: the caller. */
    VG_CUDA_SAYS_TIE,
    /* Memory. Values: the caller, bytes. */
    VG_CUDA_SAYS_BYTES,
    /* Memory. Values: the caller, bytes of a row, rows. */
    VG_CUDA_SAYS_ROWS,
    /* Memory. Values: the caller, width, height, and an element's format and channels. */
    VG_CUDA_SAYS_FLAT,
    /* Memory. Values: the caller, width, height, depth, and an element's format and channels. */
    VG_CUDA_SAYS_ARRAY,
    /* Memory. Values: the caller, bytes, the kind and number of the device. */
    VG_CUDA_SAYS_CREATE,
    /* Devices that may access memory. Values: the caller, their number, the first two. */
    VG_CUDA_SAYS_ACCESS,
    /* This context may access another. Values: the caller, that context. */
    VG_CUDA_SAYS_ENABLE,
    /* This context may no longer access the other. Values: the same. */
    VG_CUDA_SAYS_DISABLE,
};

struct vg_cuda_function {
    const char *name;
    enum vg_cuda_says says;
    /* One of enum vg_cuda_tie, or 0 if the call alone makes none. */
    unsigned int tie;
};

extern const struct vg_cuda_function vg_cuda_functions[];
extern const size_t vg_cuda_functions_n;

/* Returns which values to read from a call, in the language of guest/perf-rings.h. */
const char *vg_cuda_function_values(const struct vg_cuda_function *function);

/* Returns whether only calls whose second value is VG_CUDA_LARGE_BYTES or more are of interest. */
bool vg_cuda_function_is_sized(const struct vg_cuda_function *function);

#endif
