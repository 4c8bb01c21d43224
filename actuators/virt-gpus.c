/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPUs of a domain, as devices that can be moved.
 */
#include "config.h"

#include <string.h>

#include <libvirt/virterror.h>

#include "actuators/virt-host.h"
#include "base/error.h"

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

static const vg_node_device *
find_node_device(const GPtrArray *node_devices, const char *address)
{
    for (unsigned i = 0; i < node_devices->len; i++) {
        const vg_node_device *device = node_devices->pdata[i];
        const char *own = device->kind == VG_NODE_DEVICE_MDEV ? device->uuid : device->address;
        if (own && g_ascii_strcasecmp(own, address) == 0)
            return device;
    }
    return NULL;
}

/* 1: it is a GPU, and *ret what moves; 0: it is none; -1: it cannot be told. */
static int
gpu_of(const vg_domain_device *device, const struct vg_named_device *named,
       const GPtrArray *node_devices, struct vg_move_device **ret, GError **err)
{
    const vg_node_device *known =
        device->source_address ? find_node_device(node_devices, device->source_address) : NULL;
    const char *type = named ? named->name : NULL;

    if (!named && device->kind == VG_DOMAIN_DEVICE_OTHER)
        return 0;
    if (!named && device->kind == VG_DOMAIN_DEVICE_PCI) {
        if (!known || !known->pci_id)
            return 0;
        type = known->pci_id;
    } else if (!named) {
        if (!known || !known->type)
            return vg_error(err, VG_E_EXTERNAL,
                            "libvirt does not know of which type the mediated device %s ('%s') is",
                            device->source_address, device->alias);
        type = known->type;
    }
    struct vg_move_device *gpu = vg_record_new(&vg_move_device_record);
    gpu->kind = named                                  ? VG_MOVE_DEVICE_NAMED
                : device->kind == VG_DOMAIN_DEVICE_PCI ? VG_MOVE_DEVICE_PCI
                                                       : VG_MOVE_DEVICE_MDEV;
    gpu->type = g_strdup(type);
    gpu->alias = g_strdup(device->alias);
    gpu->guest_address = g_strdup(device->guest_address);
    gpu->guest_path = g_strdup(device->guest_path);
    gpu->source_address = named ? NULL : g_strdup(device->source_address);
    gpu->source_xml = g_strdup(device->xml);
    *ret = gpu;
    return 1;
}

static GPtrArray *
gpus_of(const GPtrArray *live, const GPtrArray *inactive, const GPtrArray *node_devices,
        const struct vg_named_device *named, size_t n_named, GError **err)
{
    g_autoptr(GPtrArray) gpus = g_ptr_array_new_with_free_func(free_move_device);

    for (unsigned i = 0; i < live->len; i++) {
        const vg_domain_device *device = live->pdata[i];
        struct vg_move_device *gpu = NULL;
        if (!device->alias)
            continue;
        int is = gpu_of(device, find_named(device, named, n_named), node_devices, &gpu, err);
        if (is < 0)
            return NULL;
        if (is == 0)
            continue;
        gpu->persistent =
            inactive && vg_domain_devices_find(inactive, gpu->alias, gpu->source_address);
        g_ptr_array_add(gpus, gpu);
    }
    if (gpus->len > VG_MIGRATION_DEVICES_MAX) {
        vg_error(err, VG_E_CONFLICT, "the domain has %u GPUs, at most %d can be moved", gpus->len,
                 VG_MIGRATION_DEVICES_MAX);
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

GPtrArray *
vg_virt_gpus(vg_virt_host *host, const char *uuid, const struct vg_named_device *named,
             size_t n_named, GError **err)
{
    g_autoptr(virDomain) domain = vg_virt_host_domain(host, uuid, err);
    g_autoptr(GPtrArray) inactive = NULL;

    if (!domain)
        return NULL;
    if (virDomainIsActive(domain) == 0) {
        vg_error(err, VG_E_CONFLICT, "'%s' does not run on '%s'", virDomainGetName(domain),
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
    g_autoptr(GPtrArray) node_devices =
        passes_through(live) ? vg_virt_host_node_devices(host, err) : g_ptr_array_new();
    return node_devices ? gpus_of(live, inactive, node_devices, named, n_named, err) : NULL;
}
