/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices of the host as libvirt's node device XML has them, and the GPUs that they make up. Pure;
 * any thread.
 */
#ifndef VG_HOST_NODE_DEVICE_H
#define VG_HOST_NODE_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "model/inventory.h"

enum vg_node_device_kind {
    VG_NODE_DEVICE_OTHER,
    VG_NODE_DEVICE_GPU, /* a PCI function of class 03 (display) or 12 (processing accelerator) */
    VG_NODE_DEVICE_FUNCTION, /* another PCI function of a kind that cards with GPUs have */
    VG_NODE_DEVICE_MDEV,
};

typedef struct vg_node_device vg_node_device;
struct vg_node_device {
    enum vg_node_device_kind kind;
    char *name; /* libvirt's: "pci_0000_41_00_0" */
    /* GPU, and, of these, FUNCTION: address, pci_id, driver, iommu_group */
    char *address;  /* "0000:41:00.0" */
    char *physical; /* a virtual function: address of the one it is of; else NULL */
    char *vendor;
    char *product;
    char *pci_id; /* of vendor and product: "10de:2330" */
    char *driver;
    int64_t numa_node; /* -1: unknown */
    int64_t vf_max;
    int64_t iommu_group; /* -1: unknown */
    const char *what;    /* FUNCTION: "audio", "USB" */
    GPtrArray *types;    /* struct vg_inv_mdev_type */
    /* MDEV */
    char *uuid;
    char *type;
    char *parent;  /* address */
    bool inactive; /* defined, and not started. The XML does not say: whoever lists them does */
};

/* NULL and *err if it is no node device. */
vg_node_device *vg_node_device_read(const char *xml, GError **err);
void vg_node_device_free(vg_node_device *device); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_node_device, vg_node_device_free)

/* Puts GPUs (by address) and mdevs (by UUID) into an inventory that has none, and into the devices
 * of its VMs what is known of them there (vg_gpu_parts_tell_vms()). Virtual functions of a GPU are
 * parts of it: their mdev types add up, their mdevs are its. So are other functions in its slot. */
void vg_node_devices_put(const GPtrArray *devices, vg_inventory *inventory);

#endif
