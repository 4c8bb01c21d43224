/* SPDX-License-Identifier: Apache-2.0
 *
 * Data that the watch has learned from a process's calls: large allocations, which of its GPUs may
 * access memory of others, and the libraries that made the calls. Freed memory is not tracked,
 * because the calls that free have no size. Pure.
 */
#ifndef VG_GUEST_CUDA_HISTORY_H
#define VG_GUEST_CUDA_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guest/cuda-functions.h"

#define VG_CUDA_PEERS_MAX        16
#define VG_CUDA_CALLS_MAX        8
#define VG_CUDA_LIBRARY_NAME_MAX 40

/* A part of the watch's file, whose layout this is. */
struct vg_cuda_history {
    /* The size of the smallest large allocation, by the calls that allocate for the current
     * context, and by cuMemCreate; 0 if there was none. */
    uint64_t large_bytes, created_bytes;
    /* Bits of the devices where cuMemCreate made large allocations, and of the devices that may
     * access memory through cuMemSetAccess. */
    uint64_t created_on, access_by;
    /* Contexts that others may access, and how often this access was enabled and disabled. */
    struct {
        uint64_t context;
        uint32_t enabled, disabled;
    } peers[VG_CUDA_PEERS_MAX];
    uint32_t n_peers;
    /* There were more such contexts than can be stored. */
    uint32_t more_peers;
    /* Functions that it called, by index, and the library that made the call, or an empty text. */
    struct {
        uint32_t function;
        char library[VG_CUDA_LIBRARY_NAME_MAX];
    } calls[VG_CUDA_CALLS_MAX];
    uint32_t n_calls;
    /* The number of callers that were looked up. */
    uint32_t looked_up;
};

/* Records a call of function i. Returns whether the call is relevant; small allocations are not. */
bool vg_cuda_history_take(struct vg_cuda_history *history, size_t i, const uint64_t *values,
                          size_t n);

/* Returns whether the caller of this call must be determined. */
bool vg_cuda_history_wants_caller(const struct vg_cuda_history *history, size_t i);
/* Records the library that made a call of function i; "" if unknown. */
void vg_cuda_history_take_caller(struct vg_cuda_history *history, size_t i, const char *library);

/* Return whether, according to its calls alone, a GPU may access a large allocation of another GPU.
 * The first function checks allocations made for a context, the second those made by cuMemCreate.
 */
bool vg_cuda_history_has_peer(const struct vg_cuda_history *history);
bool vg_cuda_history_has_shared(const struct vg_cuda_history *history);

#endif
