/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/card-fact.h"

#include <string.h>

#include "model/gpu-part.h"

static const struct vg_card_fact *
card_fact_find(const GArray *facts, const char *device)
{
    for (guint i = 0; facts && i < facts->len; i++) {
        const struct vg_card_fact *fact = &g_array_index(facts, struct vg_card_fact, i);
        if (strcmp(fact->device, device) == 0)
            return fact;
    }
    return NULL;
}

/* Returns whether the GPU offers vGPU types, and not only itself. */
static bool
card_fact_has_vgpus(const struct vg_snap_gpu *gpu)
{
    for (guint i = 0; i < gpu->vgpu_types->len; i++) {
        const struct vg_snap_vgpu_type *type = gpu->vgpu_types->pdata[i];
        if (!vg_gpu_type_is_whole(type->type))
            return true;
    }
    return false;
}

void
vg_card_facts_fill_in(const GArray *facts, struct vg_snap_host *host)
{
    for (guint i = 0; i < host->gpus->len; i++) {
        struct vg_snap_gpu *gpu = host->gpus->pdata[i];
        const struct vg_card_fact *fact = card_fact_find(facts, gpu->device);
        if (!fact)
            continue;
        if (gpu->profiles == VG_PROFILES_UNKNOWN)
            gpu->profiles = fact->profiles;
        if (gpu->memory_bytes == 0)
            gpu->memory_bytes = card_fact_has_vgpus(gpu) ? fact->vgpu_bytes : fact->memory_bytes;
    }
}

/* Returns the memory of a VM's part of a GPU, or 0 if unknown. */
static int64_t
card_fact_bytes(const struct vg_snap_gpu *gpu, const struct vg_snap_gpu_use *use)
{
    if (use->vgpu_type && vg_gpu_type_is_whole(use->vgpu_type))
        return gpu->memory_bytes;
    for (guint i = 0; use->vgpu_type && i < gpu->vgpu_types->len; i++) {
        const struct vg_snap_vgpu_type *type = gpu->vgpu_types->pdata[i];
        if (strcmp(type->type, use->vgpu_type) == 0 && type->memory_bytes > 0)
            return type->memory_bytes;
    }
    return use->memory_bytes;
}

/* Adds the memory of a VM's part of a GPU. Returns false if it is unknown. */
static bool
card_fact_add_vm(const struct vg_snap_gpu *gpu, const struct vg_snap_vm *vm, int64_t *used)
{
    for (guint i = 0; i < vm->gpu->len; i++) {
        const struct vg_snap_gpu_use *use = vm->gpu->pdata[i];
        if (strcmp(use->device, gpu->device) != 0)
            continue;
        const int64_t bytes = card_fact_bytes(gpu, use);
        *used = MIN(*used + bytes, gpu->memory_bytes);
        /* The other entries are other engines of the same part. */
        return bytes > 0;
    }
    return true;
}

void
vg_card_facts_count_free(struct vg_snap_host *host)
{
    for (guint i = 0; i < host->gpus->len; i++) {
        struct vg_snap_gpu *gpu = host->gpus->pdata[i];
        int64_t used = 0;
        bool known = true;
        if (gpu->memory_bytes == 0 || gpu->memory_free_bytes > 0)
            continue;
        for (guint v = 0; v < host->vms->len && known; v++)
            known = card_fact_add_vm(gpu, host->vms->pdata[v], &used);
        gpu->memory_free_bytes = known ? gpu->memory_bytes - used : 0;
        if (!known)
            gpu->memory_bytes = 0;
    }
}
