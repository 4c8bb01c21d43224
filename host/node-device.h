/* SPDX-License-Identifier: Apache-2.0
 *
 * The host's devices according to libvirt's node device XML, and the GPUs that they form. Pure;
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
    /* a PCI function of class 03 (display) or 12 (processing accelerator), or one that counts as a
     * GPU (host/gpu-cards.h) */
    VG_NODE_DEVICE_GPU,
    VG_NODE_DEVICE_FUNCTION,  /* another PCI function of a kind that cards with GPUs have */
    VG_NODE_DEVICE_NEIGHBOUR, /* any other function except a bridge: it may be in the IOMMU group of
                                 a GPU */
    VG_NODE_DEVICE_MDEV,
};

typedef struct vg_node_device vg_node_device;
struct vg_node_device {
    enum vg_node_device_kind kind;
    char *name; /* libvirt's name: "pci_0000_41_00_0" */
    /* For a GPU; for a FUNCTION or a NEIGHBOUR only address, pci_id, driver and iommu_group. */
    char *address;  /* "0000:41:00.0" */
    char *physical; /* for a virtual function, the address of the physical one; otherwise NULL */
    char *vendor;
    char *product;
    char *pci_id; /* vendor and product: "10de:2330" */
    char *driver;
    int64_t numa_node; /* -1 if unknown */
    int64_t vf_max;
    int64_t iommu_group; /* -1 if unknown */
    const char *what;    /* for a FUNCTION or a NEIGHBOUR: "audio", "USB", "network" */
    GPtrArray *types;    /* struct vg_inv_mdev_type */
    /* For an MDEV. */
    char *uuid;
    char *type;
    char *parent; /* the address of its parent */
    /* defined, but not started. The XML does not say so; the caller that lists devices sets it */
    bool inactive;
};

/* Returns NULL and sets *err if the XML is not a node device. */
vg_node_device *vg_node_device_read(const char *xml, GError **err);
void vg_node_device_free(vg_node_device *device); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_node_device, vg_node_device_free)

/* Adds GPUs (by address) and mdevs (by UUID) to an inventory that has none. Also adds to the
 * devices of its VMs the facts that this reveals (vg_gpu_parts_assign_vms()). Virtual functions of
 * a GPU are parts of it: their mdev types are added up, and their mdevs belong to the GPU. Other
 * functions in the GPU's slot and other devices in its IOMMU group are also parts of it. */
void vg_node_devices_put(const GPtrArray *devices, vg_inventory *inventory);

#endif
