/* SPDX-License-Identifier: Apache-2.0
 *
 * The largest vGPU profile with a free slot on a GPU or host. It shows how fragmented the GPU or
 * host is. Pure; any thread.
 */
#ifndef VG_MODEL_GPU_LARGEST_H
#define VG_MODEL_GPU_LARGEST_H

#include "model/snapshot.h"

enum vg_gpu_largest_state {
    VG_GPU_LARGEST_UNKNOWN, /* several profiles have free slots, and a size is unknown */
    VG_GPU_LARGEST_NONE,    /* no slot is free */
    VG_GPU_LARGEST_FREE
};

struct vg_gpu_largest {
    enum vg_gpu_largest_state state;
    const char *type;     /* only if FREE; borrowed from the snapshot */
    int64_t memory_bytes; /* of one; 0 if unknown */
};

extern const char *const vg_gpu_largest_names[]; /* "unknown", "none", "free" */

/* Finds the profile. A whole GPU counts only if it offers no vGPU types. */
struct vg_gpu_largest vg_gpu_largest_of(const struct vg_snap_gpu *gpu);
struct vg_gpu_largest vg_gpu_largest_of_host(const struct vg_snap_host *host);

#endif
