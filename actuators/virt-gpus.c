/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists the GPUs of a domain as devices that can be moved.
 */
#include "config.h"

#include <string.h>

#include <libvirt/virterror.h>

#include "actuators/virt-host.h"
#include "base/error.h"
#include "model/gpu-part.h"

static void
free_move_device(void *device)
{
    vg_record_free(&vg_move_device_record, device);
}

static const struct vg_named_device *
find_named(const vg_domain_device *device, const struct vg_named_device *named, size_t n_named)
{
    for (size_t i = 0; device->alias && i < n_named; i++) {
        g_autoptr(vg_domain_device) known = vg_domain_device_read(named[i].xml, NULL);
        if (known && known->alias && strcmp(known->alias, device->alias) == 0)
            return &named[i];
    }
    return NULL;
}

static const struct vg_gpu_part *
gpus_find_part(const GPtrArray *parts, const char *address)
{
    for (unsigned i = 0; i < parts->len; i++) {
        const struct vg_gpu_part *part = parts->pdata[i];
        if (part->address && g_ascii_strcasecmp(part->address, address) == 0)
            return part;
    }
    return NULL;
}

static struct vg_move_device *
gpus_make(const vg_domain_device *device, enum vg_move_device_kind kind, const char *type)
{
    struct vg_move_device *gpu = vg_record_new(&vg_move_device_record);

    gpu->kind = kind;
    gpu->type = g_strdup(type);
    gpu->alias = g_strdup(device->alias);
    gpu->guest_address = g_strdup(device->guest_address);
    gpu->guest_path = g_strdup(device->guest_path);
    gpu->source_address = kind == VG_MOVE_DEVICE_NAMED ? NULL : g_strdup(device->source_address);
    gpu->source_xml = g_strdup(device->xml);
    return gpu;
}

/* Reads a device. Returns 1 and *ret if it is a GPU, 0 if not, or -1 if this is unknown. */
static int
gpus_read_one(const vg_domain_device *device, const struct vg_named_device *named,
              const GPtrArray *parts, struct vg_move_device **ret, GError **err)
{
    const struct vg_gpu_part *part =
        device->source_address ? gpus_find_part(parts, device->source_address) : NULL;

    if (named) {
        *ret = gpus_make(device, VG_MOVE_DEVICE_NAMED, named->name);
        return 1;
    }
    const char *type = part ? part->type : NULL;
    if (device->kind == VG_DOMAIN_DEVICE_OTHER || (device->kind == VG_DOMAIN_DEVICE_PCI && !part))
        return 0;
    if (device->kind == VG_DOMAIN_DEVICE_MDEV && !type)
        return vg_error(err, VG_E_EXTERNAL,
                        "libvirt does not know the type of the mediated device %s ('%s')",
                        device->source_address, device->alias);
    if (!type)
        return vg_error(err, VG_E_EXTERNAL,
                        "the vGPU type of the virtual function %s ('%s') is unknown",
                        device->source_address, device->alias);
    *ret = gpus_make(
        device, device->kind == VG_DOMAIN_DEVICE_PCI ? VG_MOVE_DEVICE_PCI : VG_MOVE_DEVICE_MDEV,
        type);
    return 1;
}

/* Records the GPU to which each other function of its card belongs. If the VM does not have that
 * GPU, the function stays as it is. */
static void
gpus_join_functions(GPtrArray *gpus, const GPtrArray *parts)
{
    for (unsigned i = 0; i < gpus->len;) {
        struct vg_move_device *device = gpus->pdata[i];
        const struct vg_gpu_part *part =
            device->source_address ? gpus_find_part(parts, device->source_address) : NULL;
        const bool is_function = part && part->kind == VG_GPU_PART_FUNCTION;
        for (unsigned k = 0; is_function && k < gpus->len; k++) {
            const struct vg_move_device *gpu = gpus->pdata[k];
            if (g_strcmp0(gpu->source_address, part->gpu) == 0)
                device->function_of = g_strdup(gpu->alias);
        }
        if (is_function && !device->function_of)
            g_ptr_array_remove_index(gpus, i);
        else
            i++;
    }
}

static GPtrArray *
gpus_read(const GPtrArray *live, const GPtrArray *inactive, const GPtrArray *parts,
          const struct vg_named_device *named, size_t n_named, GError **err)
{
    g_autoptr(GPtrArray) gpus = g_ptr_array_new_with_free_func(free_move_device);

    for (unsigned i = 0; i < live->len; i++) {
        const vg_domain_device *device = live->pdata[i];
        struct vg_move_device *gpu = NULL;
        if (!device->alias)
            continue;
        int is = gpus_read_one(device, find_named(device, named, n_named), parts, &gpu, err);
        if (is < 0)
            return NULL;
        if (is == 0)
            continue;
        gpu->persistent =
            inactive && vg_domain_devices_find(inactive, gpu->alias, gpu->source_address);
        g_ptr_array_add(gpus, gpu);
    }
    gpus_join_functions(gpus, parts);
    if (gpus->len > VG_MIGRATION_DEVICES_MAX) {
        vg_error(err, VG_E_CONFLICT, "the domain has %u GPUs, but at most %d can be moved",
                 gpus->len, VG_MIGRATION_DEVICES_MAX);
        return NULL;
    }
    return g_steal_pointer(&gpus);
}

static bool
passes_through(const GPtrArray *devices)
{
    for (unsigned i = 0; i < devices->len; i++) {
        const vg_domain_device *device = devices->pdata[i];
        if (device->kind != VG_DOMAIN_DEVICE_OTHER)
            return true;
    }
    return false;
}

/* Reads the parts of the host's GPUs. The list is empty if the domain has no host device. */
static GPtrArray *
gpus_read_parts(vg_virt_host *host, const GPtrArray *live, GError **err)
{
    if (!passes_through(live))
        return g_ptr_array_new();
    g_autoptr(GPtrArray) node_devices = vg_virt_host_node_devices(host, err);
    g_autoptr(vg_inventory) inventory =
        node_devices ? vg_virt_host_inventory(host, node_devices, err) : NULL;
    return inventory ? vg_gpu_parts(inventory, NULL) : NULL;
}

GPtrArray *
vg_virt_host_gpus(vg_virt_host *host, const char *uuid, const struct vg_named_device *named,
                  size_t n_named, GError **err)
{
    g_autoptr(virDomain) domain = vg_virt_host_domain(host, uuid, err);
    g_autoptr(GPtrArray) inactive = NULL;

    if (!domain)
        return NULL;
    if (virDomainIsActive(domain) == 0) {
        vg_error(err, VG_E_CONFLICT, "'%s' is not running on '%s'", virDomainGetName(domain),
                 host->uri);
        return NULL;
    }
    g_autoptr(GPtrArray) live = vg_virt_host_devices(host, domain, 0, err);
    if (!live)
        return NULL;
    if (virDomainIsPersistent(domain) == 1) {
        inactive = vg_virt_host_devices(host, domain, VIR_DOMAIN_XML_INACTIVE, err);
        if (!inactive)
            return NULL;
    }
    g_autoptr(GPtrArray) parts = gpus_read_parts(host, live, err);
    return parts ? gpus_read(live, inactive, parts, named, n_named, err) : NULL;
}
