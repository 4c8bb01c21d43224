/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/inventory.h"

#include <string.h>

#include "model/vm-name.h"

#define REQ  VG_FIELD_REQUIRED
#define OMIT VG_FIELD_OMIT

#define BYTES_MAX ((double)(INT64_C(1) << 50))

#define NAME(member, flags) VG_ROW_STRING(member, flags, 1, VG_SNAPSHOT_NAME_MAX)
#define TEXT(member, flags) VG_ROW_STRING(member, flags, 0, VG_SNAPSHOT_TEXT_FIELD_MAX)

const char *const vg_domain_state_names[] = {
    [VG_DOMAIN_UNKNOWN] = "unknown",   [VG_DOMAIN_RUNNING] = "running",
    [VG_DOMAIN_BLOCKED] = "blocked",   [VG_DOMAIN_PAUSED] = "paused",
    [VG_DOMAIN_SHUTDOWN] = "shutdown", [VG_DOMAIN_SHUTOFF] = "shutoff",
    [VG_DOMAIN_CRASHED] = "crashed",   [VG_DOMAIN_SUSPENDED] = "suspended",
    [VG_DOMAIN_STATE_MAX] = NULL,
};

#define THIS vg_inv_device
static const struct vg_field device_fields[] = {
    NAME(kind, REQ),       NAME(address, REQ),   NAME(alias, 0),         NAME(parent, OMIT),
    NAME(mdev_type, OMIT), NAME(gpu_type, OMIT), VG_ROW_BOOL(is_gpu, 0), NAME(function, OMIT),
};
const struct vg_record_type vg_inv_device_record = VG_ROW_TYPE(device_fields);
#undef THIS

#define THIS vg_inv_vcpu
static const struct vg_field vcpu_fields[] = {
    VG_ROW_INT(index, REQ, 0, VG_INVENTORY_VCPUS_MAX),
    VG_ROW_INT(tid, 0, 0, VG_TID_LIMIT),
};
const struct vg_record_type vg_inv_vcpu_record = VG_ROW_TYPE(vcpu_fields);
#undef THIS

#define THIS vg_inv_nova
static const struct vg_field nova_fields[] = {
    TEXT(name, OMIT),    TEXT(flavor, OMIT),    TEXT(project_id, OMIT), TEXT(project_name, OMIT),
    TEXT(user_id, OMIT), TEXT(user_name, OMIT), TEXT(created, OMIT),
};
const struct vg_record_type vg_inv_nova_record = VG_ROW_TYPE(nova_fields);
#undef THIS

const char *const vg_virtio_gpu_names[] = {"none", "virgl", "venus", "native-context", NULL};

#define THIS vg_inv_vm
static const struct vg_field vm_fields[] = {
    NAME(name, REQ),
    NAME(uuid, 0),
    VG_ROW_INT(id, 0, -1, 1e9),
    VG_ROW_ENUM("state", state, REQ, vg_domain_state_names),
    VG_ROW_INT(pid, OMIT, 0, VG_TID_LIMIT),
    VG_ROW_INT(vcpus, 0, 0, VG_INVENTORY_VCPUS_MAX),
    VG_ROW_INT(memory_bytes, OMIT, 0, BYTES_MAX),
    NAME(cpu_model, OMIT),
    VG_ROW_DOUBLE(cpu_limit, OMIT, 0, VG_INVENTORY_VCPUS_MAX),
    VG_ROW_BOOL(pinned, 0),
    VG_ROW_ENUM("policy", policy, OMIT, vg_policy_mode_names),
    VG_ROW_BOOL(nova_managed, 0),
    VG_ROW_PART(nova, OMIT, &vg_inv_nova_record),
    NAME(manager, OMIT),
    TEXT(manager_move, OMIT),
    VG_ROW_ENUM("virtio_gpu", virtio_gpu, OMIT, vg_virtio_gpu_names),
    VG_ROW_INT(hostmem_bytes, OMIT, 0, BYTES_MAX),
    VG_ROW_LIST(threads, 0, VG_INVENTORY_VCPUS_MAX, &vg_inv_vcpu_record),
    VG_ROW_LIST(devices, 0, VG_INVENTORY_DEVICES_MAX, &vg_inv_device_record),
};
const struct vg_record_type vg_inv_vm_record = VG_ROW_TYPE(vm_fields);
#undef THIS

#define THIS vg_inv_mdev_type
static const struct vg_field mdev_type_fields[] = {
    NAME(type, REQ),
    NAME(name, 0),
    NAME(device_api, 0),
    VG_ROW_INT(available, 0, 0, 1e6),
    VG_ROW_INT(functions, OMIT, 0, 1e6),
    VG_ROW_INT(max_instances, OMIT, 0, VG_INVENTORY_MDEVS_MAX),
};
const struct vg_record_type vg_inv_mdev_type_record = VG_ROW_TYPE(mdev_type_fields);
#undef THIS

#define THIS vg_inv_mdev
static const struct vg_field mdev_fields[] = {
    NAME(uuid, REQ),
    NAME(type, 0),
    NAME(function, OMIT),
    VG_ROW_BOOL(inactive, OMIT),
};
const struct vg_record_type vg_inv_mdev_record = VG_ROW_TYPE(mdev_fields);
#undef THIS

#define THIS vg_inv_use
static const struct vg_field use_fields[] = {
    VG_ROW_BOOL(known, 0),
    TEXT(text, 0),
};
const struct vg_record_type vg_inv_use_record = VG_ROW_TYPE(use_fields);
#undef THIS

#define THIS vg_inv_function
static const struct vg_field function_fields[] = {
    NAME(address, REQ),
    NAME(what, 0),
    NAME(pci_id, 0),
    NAME(driver, 0),
    VG_ROW_INT(iommu_group, 0, -1, 1e6),
};
const struct vg_record_type vg_inv_function_record = VG_ROW_TYPE(function_fields);
#undef THIS

#define THIS vg_inv_vf
static const struct vg_field vf_fields[] = {
    NAME(address, REQ),
    NAME(pci_id, 0),
    NAME(driver, 0),
    NAME(vgpu_type, 0),
    VG_ROW_BOOL(vgpu_told, 0),
    VG_ROW_BOOL(no_iommu, OMIT),
    VG_ROW_LIST(creatable, OMIT, VG_SNAPSHOT_VGPU_TYPES_MAX, &vg_inv_mdev_type_record),
    VG_ROW_PART(use, 0, &vg_inv_use_record),
};
const struct vg_record_type vg_inv_vf_record = VG_ROW_TYPE(vf_fields);
#undef THIS

#define THIS vg_inv_gpu
static const struct vg_field gpu_fields[] = {
    NAME(device, REQ),
    NAME(vendor, 0),
    NAME(product, 0),
    NAME(pci_id, 0),
    NAME(driver, 0),
    VG_ROW_INT(numa_node, 0, -1, 1e6),
    VG_ROW_INT(vf_max, OMIT, 0, 65536),
    VG_ROW_INT(iommu_group, 0, -1, 1e6),
    VG_ROW_BOOL(no_iommu, OMIT),
    VG_ROW_PART(use, 0, &vg_inv_use_record),
    VG_ROW_LIST(functions, 0, VG_INVENTORY_FUNCTIONS_MAX, &vg_inv_function_record),
    VG_ROW_LIST(vfs, 0, VG_INVENTORY_VFS_MAX, &vg_inv_vf_record),
    VG_ROW_LIST(mdev_types, 0, VG_SNAPSHOT_VGPU_TYPES_MAX, &vg_inv_mdev_type_record),
    VG_ROW_LIST(mdevs, 0, VG_INVENTORY_MDEVS_MAX, &vg_inv_mdev_record),
};
const struct vg_record_type vg_inv_gpu_record = VG_ROW_TYPE(gpu_fields);
#undef THIS

#define THIS vg_inventory
static const struct vg_field inventory_fields[] = {
    NAME(host, REQ),
    NAME(uuid, 0),
    VG_ROW_INT(cpus, 0, 0, VG_CPU_LIMIT),
    NAME(cpu_model, 0),
    VG_ROW_INT(memory_bytes, 0, 0, BYTES_MAX),
    VG_ROW_INT(memory_free_bytes, 0, 0, BYTES_MAX),
    NAME(hypervisor, 0),
    TEXT(libvirt_uri, 0),
    VG_ROW_LIST(gpus, 0, VG_SNAPSHOT_GPUS_MAX, &vg_inv_gpu_record),
    VG_ROW_LIST(vms, 0, VG_SNAPSHOT_VMS_MAX, &vg_inv_vm_record),
};
const struct vg_record_type vg_inventory_record = VG_ROW_TYPE(inventory_fields);
#undef THIS

vg_inventory *
vg_inventory_new(const char *host)
{
    vg_inventory *inventory = vg_record_new(&vg_inventory_record);

    inventory->host = g_strdup(host);
    return inventory;
}

void
vg_inventory_free(vg_inventory *inventory)
{
    vg_record_free(&vg_inventory_record, inventory);
}

struct vg_inv_vm *
vg_inventory_add_vm(vg_inventory *inventory, const char *name)
{
    struct vg_inv_vm *vm = vg_record_new(&vg_inv_vm_record);

    vm->name = g_strdup(name);
    vm->id = -1;
    vm->user = -1;
    g_ptr_array_add(inventory->vms, vm);
    return vm;
}

struct vg_inv_gpu *
vg_inventory_add_gpu(vg_inventory *inventory, const char *device)
{
    struct vg_inv_gpu *gpu = vg_record_new(&vg_inv_gpu_record);

    gpu->device = g_strdup(device);
    gpu->numa_node = -1;
    gpu->iommu_group = -1;
    g_ptr_array_add(inventory->gpus, gpu);
    return gpu;
}

void
vg_inv_gpu_count_room(struct vg_inv_gpu *gpu)
{
    int64_t made = 0;

    for (guint i = 0; i < gpu->mdevs->len; i++)
        made += !((const struct vg_inv_mdev *)gpu->mdevs->pdata[i])->inactive;
    for (guint i = 0; i < gpu->mdev_types->len; i++) {
        struct vg_inv_mdev_type *type = gpu->mdev_types->pdata[i];
        if (type->functions > 0)
            type->available =
                MAX(type->available, MIN(type->functions, MAX(1, type->max_instances - made)));
    }
}

const struct vg_inv_vm *
vg_inventory_find(const vg_inventory *inventory, const char *uuid, int64_t pid, const char *name)
{
    const struct vg_inv_vm *by_pid = NULL, *by_name = NULL;

    for (guint i = 0; i < inventory->vms->len; i++) {
        const struct vg_inv_vm *vm = inventory->vms->pdata[i];
        if (vg_vm_is(uuid, NULL, vm->uuid))
            return vm;
        if (uuid && vm->uuid)
            continue;
        if (pid > 0 && vm->pid == pid)
            by_pid = vm;
        if (name && strcmp(vm->name, name) == 0)
            by_name = vm;
    }
    return by_pid ? by_pid : by_name;
}

const char *
vg_inv_vm_display_name(const struct vg_inv_vm *vm)
{
    return vm && vm->nova_managed && vm->nova.name && vm->nova.name[0] ? vm->nova.name : NULL;
}

const char *
vg_virtio_gpu_words(enum vg_virtio_gpu gpu)
{
    static const char *const words[VG_VIRTIO_GPU_MAX] = {
        [VG_VIRTIO_GPU_VIRGL] = "virtio-gpu with 3D (virgl)",
        [VG_VIRTIO_GPU_VENUS] = "virtio-gpu with Venus",
        [VG_VIRTIO_GPU_NATIVE] = "virtio-gpu with native contexts",
    };

    return words[gpu];
}
