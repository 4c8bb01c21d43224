/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/gpu-largest.h"

#include <string.h>

#include "model/gpu-part.h"
#include "model/gpu-profile.h"

const char *const vg_gpu_largest_names[] = {"unknown", "none", "free"};

/* Adds a profile with a free slot. */
static void
largest_add(struct vg_gpu_largest *largest, const char *type, int64_t bytes)
{
    if (largest->state == VG_GPU_LARGEST_UNKNOWN)
        return;
    if (largest->state == VG_GPU_LARGEST_NONE)
        *largest = (struct vg_gpu_largest){VG_GPU_LARGEST_FREE, type, bytes};
    else if (strcmp(largest->type, type) == 0)
        largest->memory_bytes = MAX(largest->memory_bytes, bytes);
    else if (bytes == 0 || largest->memory_bytes == 0)
        *largest = (struct vg_gpu_largest){.state = VG_GPU_LARGEST_UNKNOWN};
    else if (bytes > largest->memory_bytes)
        *largest = (struct vg_gpu_largest){VG_GPU_LARGEST_FREE, type, bytes};
}

struct vg_gpu_largest
vg_gpu_largest_of(const struct vg_snap_gpu *gpu)
{
    struct vg_gpu_largest largest = {.state = VG_GPU_LARGEST_NONE};
    bool only_whole = true;

    for (guint i = 0; i < gpu->vgpu_types->len; i++) {
        const struct vg_snap_vgpu_type *type = gpu->vgpu_types->pdata[i];
        only_whole = only_whole && vg_gpu_type_is_whole(type->type);
    }
    for (guint i = 0; i < gpu->vgpu_types->len; i++) {
        const struct vg_snap_vgpu_type *type = gpu->vgpu_types->pdata[i];
        const bool whole = vg_gpu_type_is_whole(type->type);
        if (type->free <= 0 || whole != only_whole)
            continue;
        if (whole)
            largest_add(&largest, type->type, gpu->memory_bytes);
        else
            largest_add(&largest, type->type,
                        type->memory_bytes > 0 ? type->memory_bytes
                                               : vg_gpu_profile_bytes(type->type));
    }
    return largest;
}

struct vg_gpu_largest
vg_gpu_largest_of_host(const struct vg_snap_host *host)
{
    struct vg_gpu_largest largest = {.state = VG_GPU_LARGEST_NONE};

    for (guint i = 0; i < host->gpus->len; i++) {
        const struct vg_gpu_largest one = vg_gpu_largest_of(host->gpus->pdata[i]);
        if (one.state == VG_GPU_LARGEST_UNKNOWN)
            return one;
        if (one.state == VG_GPU_LARGEST_FREE)
            largest_add(&largest, one.type, one.memory_bytes);
    }
    return largest;
}
