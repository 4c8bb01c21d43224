/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <string.h>

#include "model/gpu-part.h"
#include "model/gpu-profile.h"
#include "model/inventory.h"

#define FREE_MAX 1000000

static bool
describe_is_up(const struct vg_inv_vm *vm)
{
    return vm->state != VG_DOMAIN_SHUTOFF && vm->state != VG_DOMAIN_CRASHED;
}

static void
describe_devices(const struct vg_inv_vm *vm, struct vg_snap_vm *ret)
{
    for (guint i = 0; i < vm->devices->len; i++) {
        const struct vg_inv_device *device = vm->devices->pdata[i];
        bool is_mdev = strcmp(device->kind, "mdev") == 0;
        const char *gpu = device->parent || is_mdev ? device->parent : device->address;
        if (!device->is_gpu || !gpu || ret->gpu->len >= VG_SNAPSHOT_GPU_USES_MAX)
            continue;
        struct vg_snap_gpu_use *use = vg_record_new(&vg_snap_gpu_use_record);
        use->device = g_strdup(gpu);
        use->engine = g_strdup("unknown");
        use->vgpu_type = g_strdup(device->gpu_type);
        g_ptr_array_add(ret->gpu, use);
    }
}

static struct vg_snap_vgpu_type *
describe_find_type(const struct vg_snap_gpu *gpu, const char *type)
{
    for (guint i = 0; i < gpu->vgpu_types->len; i++) {
        struct vg_snap_vgpu_type *known = gpu->vgpu_types->pdata[i];
        if (strcmp(known->type, type) == 0)
            return known;
    }
    return NULL;
}

static struct vg_snap_vgpu_type *
describe_need_type(struct vg_snap_gpu *gpu, const char *type)
{
    struct vg_snap_vgpu_type *known = describe_find_type(gpu, type);

    if (known)
        return known;
    if (gpu->vgpu_types->len >= VG_SNAPSHOT_VGPU_TYPES_MAX)
        return NULL;
    struct vg_snap_vgpu_type *added = vg_record_new(&vg_snap_vgpu_type_record);
    added->type = g_strdup(type);
    g_ptr_array_add(gpu->vgpu_types, added);
    return added;
}

/* Adds what a GPU can give, even if no part is free, because the snapshot shows that, too. */
static void
describe_part(const struct vg_gpu_part *part, struct vg_snap_gpu *gpu)
{
    struct vg_snap_vgpu_type *type = NULL;

    if (part->kind != VG_GPU_PART_FUNCTION && part->type)
        type = describe_need_type(gpu, part->type);
    if (!type)
        return;
    type->free = MIN(type->free + part->free, FREE_MAX);
    if (part->kind != VG_GPU_PART_ROOM)
        type->made = MIN(type->made + part->free, FREE_MAX);
}

/* Adds what the name of a type states. */
static void
describe_type(const struct vg_inv_mdev_type *from, struct vg_snap_vgpu_type *type)
{
    type->memory_bytes = vg_gpu_profile_bytes(from->name);
    type->mig = vg_gpu_profile_is_mig(from->name);
}

/* Notes the total memory of the maximum number of vGPUs of a type, if that is larger. */
static void
describe_memory(const struct vg_inv_mdev_type *from, struct vg_snap_gpu *gpu)
{
    const int64_t bytes = vg_gpu_profile_bytes(from->name);

    if (bytes > 0 && from->max_instances > 0)
        gpu->memory_bytes = MAX(gpu->memory_bytes, bytes * from->max_instances);
}

/* Adds what the names of types state, and notes GVT-g. */
static void
describe_types(const struct vg_inv_gpu *inventory, struct vg_snap_gpu *gpu)
{
    for (guint i = 0; i < inventory->mdev_types->len; i++) {
        const struct vg_inv_mdev_type *from = inventory->mdev_types->pdata[i];
        struct vg_snap_vgpu_type *type = describe_need_type(gpu, from->type);
        if (!type)
            continue;
        describe_type(from, type);
        describe_memory(from, gpu);
        /* GVT-g allows vGPUs of different types on one GPU. */
        if (g_str_has_prefix(from->type, "i915-GVTg"))
            gpu->profiles = VG_PROFILES_MIXED;
    }
    for (guint i = 0; i < inventory->vfs->len; i++) {
        const GPtrArray *creatable =
            ((const struct vg_inv_vf *)inventory->vfs->pdata[i])->creatable;
        for (guint k = 0; k < creatable->len; k++) {
            const struct vg_inv_mdev_type *from = creatable->pdata[k];
            struct vg_snap_vgpu_type *type = describe_find_type(gpu, from->type);
            if (type)
                describe_type(from, type);
        }
    }
}

static void
describe_gpus(const vg_inventory *inventory, const GPtrArray *taken, struct vg_snap_host *host)
{
    g_autoptr(GPtrArray) parts = vg_gpu_parts(inventory, taken);
    struct vg_snap_gpu *gpu = NULL;

    for (guint i = 0; i < parts->len; i++) {
        const struct vg_gpu_part *part = parts->pdata[i];
        if (part->kind == VG_GPU_PART_WHOLE)
            gpu = vg_snap_host_add_gpu(host, part->gpu);
        describe_part(part, gpu);
    }
    for (guint i = 0; i < inventory->gpus->len; i++) {
        const struct vg_inv_gpu *from = inventory->gpus->pdata[i];
        for (guint k = 0; k < host->gpus->len; k++) {
            gpu = host->gpus->pdata[k];
            if (strcmp(gpu->device, from->device) == 0)
                describe_types(from, gpu);
        }
    }
}

/* Returns why a VM cannot be moved while it runs, or NULL. */
static char *
describe_why_cold(const struct vg_inv_vm *vm)
{
    const char *words = vg_virtio_gpu_words(vm->virtio_gpu);

    return words ? g_strdup_printf("%s cannot be migrated live", words) : NULL;
}

void
vg_inventory_describe(const vg_inventory *inventory, const GPtrArray *taken,
                      struct vg_snap_host *host)
{
    host->uuid = g_strdup(inventory->uuid);
    host->cpus = inventory->cpus;
    host->cpu_model = g_strdup(inventory->cpu_model);
    host->memory_bytes = inventory->memory_bytes;
    host->memory_free_bytes = inventory->memory_free_bytes;
    describe_gpus(inventory, taken, host);
    for (guint i = 0; i < inventory->vms->len; i++) {
        const struct vg_inv_vm *vm = inventory->vms->pdata[i];
        if (!describe_is_up(vm))
            continue;
        struct vg_snap_vm *ret = vg_snap_host_add_vm(host, vm->name);
        ret->uuid = g_strdup(vm->uuid);
        ret->display_name = g_strdup(vg_inv_vm_display_name(vm));
        ret->pid = vm->pid;
        ret->vcpus = vm->vcpus;
        ret->memory_bytes = vm->memory_bytes;
        ret->cpu_model = g_strdup(vm->cpu_model);
        ret->cpu_limit = vm->cpu_limit;
        ret->pinned = vm->pinned;
        ret->policy = vm->policy;
        ret->never_move = vm->policy == VG_POLICY_NEVER;
        ret->only_cold = describe_why_cold(vm);
        ret->manager = g_strdup(vm->manager);
        describe_devices(vm, ret);
    }
}
