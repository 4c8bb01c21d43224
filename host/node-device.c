/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "host/node-device.h"

#include <stdio.h>
#include <string.h>

#include "host/gpu-cards.h"
#include "host/xml-walk.h"
#include "model/gpu-part.h"

#define NAME_BYTES_MAX VG_SNAPSHOT_NAME_MAX
#define AVAILABLE_MAX  1000000

/* Classes of PCI devices (the kernel's pci_ids.h). */
#define PCI_CLASS_STORAGE        0x01
#define PCI_CLASS_NETWORK        0x02
#define PCI_CLASS_DISPLAY        0x03
#define PCI_CLASS_ACCELERATOR    0x12
#define PCI_CLASS_BRIDGE_PCI     0x0604
#define PCI_CLASS_BRIDGE_CARDBUS 0x0607

#define IOMMU_GROUP_MAX 1000000

/* ---- reading ---- */

/* Finds the capability of this type in a device or a capability. */
static const xmlNode *
capability(const xmlNode *node, const char *type)
{
    const xmlNode *found = vg_xml_child(node, "capability");

    while (found && !vg_xml_attribute_is(found, "type", type))
        found = vg_xml_next(found);
    return found;
}

static void
read_types(const xmlNode *types, vg_node_device *device)
{
    for (const xmlNode *node = vg_xml_child(types, "type");
         node && device->types->len < VG_SNAPSHOT_VGPU_TYPES_MAX; node = vg_xml_next(node)) {
        g_autofree char *id = vg_xml_attribute(node, "id", NAME_BYTES_MAX);
        if (!id)
            continue;
        struct vg_inv_mdev_type *type = vg_record_new(&vg_inv_mdev_type_record);
        type->type = g_steal_pointer(&id);
        type->name = vg_xml_text(vg_xml_child(node, "name"), NAME_BYTES_MAX);
        type->device_api = vg_xml_text(vg_xml_child(node, "deviceAPI"), NAME_BYTES_MAX);
        type->available = vg_xml_number(vg_xml_child(node, "availableInstances"), AVAILABLE_MAX, 0);
        g_ptr_array_add(device->types, type);
    }
}

static char *
pci_id_of(const xmlNode *pci)
{
    int64_t vendor = vg_xml_attribute_number(vg_xml_child(pci, "vendor"), "id", 0xffff, -1);
    int64_t product = vg_xml_attribute_number(vg_xml_child(pci, "product"), "id", 0xffff, -1);

    return vendor < 0 || product < 0
               ? NULL
               : g_strdup_printf("%04x:%04x", (unsigned)vendor, (unsigned)product);
}

/* Names another function of cards with GPUs. Returns NULL if it is something else. */
static const char *
node_device_name_function(int64_t class)
{
    static const struct {
        int64_t class; /* class and subclass */
        const char *name;
    } known[] = {
        {0x0401, "audio"}, {0x0403, "audio"}, {0x0c03, "USB"}, {0x0c80, "USB-C"}, {0x0c0a, "USB-C"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(known); i++)
        if (class >> 8 == known[i].class)
            return known[i].name;
    return NULL;
}

/* Names a device that may share a GPU's IOMMU group by chance. Returns NULL for a bridge to another
 * bus, which VFIO leaves to the host. */
static const char *
node_device_name_neighbour(int64_t class)
{
    if (class >> 8 == PCI_CLASS_BRIDGE_PCI || class >> 8 == PCI_CLASS_BRIDGE_CARDBUS)
        return NULL;
    switch (class >> 16) {
    case PCI_CLASS_STORAGE:
        return "storage";
    case PCI_CLASS_NETWORK:
        return "network";
    case PCI_CLASS_DISPLAY:
        return "the host's display";
    default:
        return "another device";
    }
}

/* Determines what a PCI device is, from its class, vendor, device, address and group. */
static enum vg_node_device_kind
read_kind(int64_t class, vg_node_device *device)
{
    if (!device->address)
        return VG_NODE_DEVICE_OTHER;
    if (vg_gpu_cards_has(device->pci_id) || class >> 16 == PCI_CLASS_ACCELERATOR ||
        (class >> 16 == PCI_CLASS_DISPLAY && !vg_gpu_cards_is_display(device->pci_id)))
        return VG_NODE_DEVICE_GPU;
    device->what = node_device_name_function(class);
    if (device->what)
        return VG_NODE_DEVICE_FUNCTION;
    if (device->iommu_group >= 0)
        device->what = node_device_name_neighbour(class);
    return device->what ? VG_NODE_DEVICE_NEIGHBOUR : VG_NODE_DEVICE_OTHER;
}

static void
read_pci(const xmlNode *root, const xmlNode *pci, vg_node_device *device)
{
    int64_t class = vg_xml_number(vg_xml_child(pci, "class"), 0xffffff, 0);

    device->address = vg_xml_pci_address(pci);
    device->iommu_group =
        vg_xml_attribute_number(vg_xml_child(pci, "iommuGroup"), "number", IOMMU_GROUP_MAX, -1);
    device->pci_id = pci_id_of(pci);
    device->kind = read_kind(class, device);
    if (device->kind == VG_NODE_DEVICE_OTHER)
        return;
    device->physical =
        vg_xml_pci_address(vg_xml_child(capability(pci, "phys_function"), "address"));
    device->vendor = vg_xml_text(vg_xml_child(pci, "vendor"), NAME_BYTES_MAX);
    device->product = vg_xml_text(vg_xml_child(pci, "product"), NAME_BYTES_MAX);
    device->driver = vg_xml_text(vg_xml_at(root, "driver/name"), NAME_BYTES_MAX);
    device->numa_node = vg_xml_attribute_number(vg_xml_child(pci, "numa"), "node", 1000000, -1);
    device->vf_max =
        vg_xml_attribute_number(capability(pci, "virt_functions"), "maxCount", 65536, 0);
    read_types(capability(pci, "mdev_types"), device);
}

/* Returns "0000:41:00.0" for libvirt's name of the device, "pci_0000_41_00_0", or for the address
 * itself. */
static char *
address_of(const char *name)
{
    unsigned domain, bus, slot, function;

    if (!name || (sscanf(name, "pci_%x_%x_%x_%x", &domain, &bus, &slot, &function) != 4 &&
                  sscanf(name, "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4))
        return NULL;
    return g_strdup_printf("%04x:%02x:%02x.%x", domain, bus & 0xff, slot & 0x1f, function & 7);
}

static void
read_mdev(const xmlNode *root, const xmlNode *mdev, vg_node_device *device)
{
    g_autofree char *uuid = vg_xml_text(vg_xml_child(mdev, "uuid"), NAME_BYTES_MAX);
    g_autofree char *parent_addr = vg_xml_text(vg_xml_child(mdev, "parent_addr"), NAME_BYTES_MAX);
    g_autofree char *parent = vg_xml_text(vg_xml_child(root, "parent"), NAME_BYTES_MAX);

    if (!uuid)
        return;
    device->kind = VG_NODE_DEVICE_MDEV;
    device->uuid = g_ascii_strdown(uuid, -1);
    device->type = vg_xml_attribute(vg_xml_child(mdev, "type"), "id", NAME_BYTES_MAX);
    device->parent = address_of(parent_addr);
    /* The test driver, and libvirt before 7.3, have no parent_addr. */
    if (!device->parent)
        device->parent = address_of(parent);
}

static void
type_free(void *type)
{
    vg_record_free(&vg_inv_mdev_type_record, type);
}

vg_node_device *
vg_node_device_read(const char *xml, GError **err)
{
    g_autoptr(vg_xml) doc = vg_xml_parse(xml, "device", err);

    if (!doc)
        return NULL;
    vg_node_device *device = g_new0(vg_node_device, 1);
    const xmlNode *root = vg_xml_root(doc);
    const xmlNode *pci = capability(root, "pci");
    const xmlNode *mdev = capability(root, "mdev");
    device->name = vg_xml_text(vg_xml_child(root, "name"), NAME_BYTES_MAX);
    device->numa_node = -1;
    device->iommu_group = -1;
    device->types = g_ptr_array_new_with_free_func(type_free);
    if (pci)
        read_pci(root, pci, device);
    else if (mdev)
        read_mdev(root, mdev, device);
    return device;
}

void
vg_node_device_free(vg_node_device *device)
{
    if (!device)
        return;
    g_free(device->name);
    g_free(device->address);
    g_free(device->physical);
    g_free(device->vendor);
    g_free(device->product);
    g_free(device->pci_id);
    g_free(device->driver);
    g_ptr_array_unref(device->types);
    g_free(device->uuid);
    g_free(device->type);
    g_free(device->parent);
    g_free(device);
}

/* ---- GPUs ---- */

static int
compare_devices(const void *a, const void *b)
{
    const vg_node_device *x = *(vg_node_device *const *)a, *y = *(vg_node_device *const *)b;
    int by_address = g_strcmp0(x->address, y->address);

    return by_address ? by_address : g_strcmp0(x->uuid, y->uuid);
}

static struct vg_inv_gpu *
node_device_find_gpu(const vg_inventory *inventory, const char *address)
{
    for (unsigned i = 0; address && i < inventory->gpus->len; i++) {
        struct vg_inv_gpu *gpu = inventory->gpus->pdata[i];
        if (strcmp(gpu->device, address) == 0)
            return gpu;
    }
    return NULL;
}

/* Sorts types by name, because their order in sysfs is random. */
static int
compare_types(const void *a, const void *b)
{
    const struct vg_inv_mdev_type *x = *(struct vg_inv_mdev_type *const *)a;
    const struct vg_inv_mdev_type *y = *(struct vg_inv_mdev_type *const *)b;

    return strcmp(x->type, y->type);
}

/* Adds types of the card itself, or of one of its virtual functions. The functions share the card's
 * capacity, which is counted when all are known. */
static void
add_types(struct vg_inv_gpu *gpu, const GPtrArray *types, bool of_function)
{
    for (unsigned i = 0; i < types->len; i++) {
        const struct vg_inv_mdev_type *type = types->pdata[i];
        struct vg_inv_mdev_type *known = NULL;
        for (unsigned k = 0; k < gpu->mdev_types->len && !known; k++) {
            struct vg_inv_mdev_type *at = gpu->mdev_types->pdata[k];
            known = strcmp(at->type, type->type) == 0 ? at : NULL;
        }
        if (!known && gpu->mdev_types->len < VG_SNAPSHOT_VGPU_TYPES_MAX) {
            known = vg_record_copy(&vg_inv_mdev_type_record, type);
            g_ptr_array_add(gpu->mdev_types, known);
        }
        if (known && of_function)
            known->functions = MIN(known->functions + type->available, AVAILABLE_MAX);
    }
    g_ptr_array_sort(gpu->mdev_types, compare_types);
}

static void
put_gpu(const vg_node_device *device, vg_inventory *inventory)
{
    if (inventory->gpus->len >= VG_SNAPSHOT_GPUS_MAX)
        return;
    struct vg_inv_gpu *gpu = vg_inventory_add_gpu(inventory, device->address);
    gpu->vendor = g_strdup(device->vendor);
    gpu->product = g_strdup(device->product);
    gpu->pci_id = g_strdup(device->pci_id);
    gpu->driver = g_strdup(device->driver);
    gpu->numa_node = device->numa_node;
    gpu->vf_max = device->vf_max;
    gpu->iommu_group = device->iommu_group;
    add_types(gpu, device->types, false);
}

static void
node_device_put_vf(const vg_node_device *device, struct vg_inv_gpu *gpu)
{
    add_types(gpu, device->types, true);
    if (gpu->vfs->len >= VG_INVENTORY_VFS_MAX)
        return;
    struct vg_inv_vf *vf = vg_record_new(&vg_inv_vf_record);
    vf->address = g_strdup(device->address);
    vf->pci_id = g_strdup(device->pci_id);
    vf->driver = g_strdup(device->driver);
    g_ptr_array_add(gpu->vfs, vf);
}

/* Finds the GPU that has this function in its slot, or this device in its IOMMU group, or returns
 * NULL. */
static struct vg_inv_gpu *
node_device_find_neighbour(const vg_inventory *inventory, const vg_node_device *device)
{
    const size_t slot = strlen(device->address) - 1; /* all except the function */

    for (unsigned i = 0; i < inventory->gpus->len; i++) {
        struct vg_inv_gpu *gpu = inventory->gpus->pdata[i];
        if (device->kind == VG_NODE_DEVICE_FUNCTION &&
            strncmp(gpu->device, device->address, slot) == 0)
            return gpu;
    }
    for (unsigned i = 0; i < inventory->gpus->len && device->iommu_group >= 0; i++) {
        struct vg_inv_gpu *gpu = inventory->gpus->pdata[i];
        if (gpu->iommu_group == device->iommu_group)
            return gpu;
    }
    return NULL;
}

static void
node_device_put_function(const vg_node_device *device, vg_inventory *inventory)
{
    struct vg_inv_gpu *gpu = node_device_find_neighbour(inventory, device);

    if (!gpu || gpu->functions->len >= VG_INVENTORY_FUNCTIONS_MAX)
        return;
    struct vg_inv_function *function = vg_record_new(&vg_inv_function_record);
    function->address = g_strdup(device->address);
    function->what = g_strdup(device->what);
    function->pci_id = g_strdup(device->pci_id);
    function->driver = g_strdup(device->driver);
    function->iommu_group = device->iommu_group;
    g_ptr_array_add(gpu->functions, function);
}

/* Maps the address of each virtual function to that of its GPU. */
static GHashTable *
node_device_map_parts(const GPtrArray *devices)
{
    g_autoptr(GHashTable) gpus = g_hash_table_new(g_str_hash, g_str_equal);
    GHashTable *parts = g_hash_table_new(g_str_hash, g_str_equal);

    for (unsigned i = 0; i < devices->len; i++) {
        const vg_node_device *device = devices->pdata[i];
        if (device->kind == VG_NODE_DEVICE_GPU)
            g_hash_table_add(gpus, device->address);
    }
    for (unsigned i = 0; i < devices->len; i++) {
        const vg_node_device *device = devices->pdata[i];
        if (device->kind == VG_NODE_DEVICE_GPU && device->physical &&
            g_hash_table_contains(gpus, device->physical))
            g_hash_table_insert(parts, device->address, device->physical);
    }
    return parts;
}

static void
put_mdev(const vg_node_device *device, GHashTable *parts, vg_inventory *inventory)
{
    const char *physical = device->parent ? g_hash_table_lookup(parts, device->parent) : NULL;
    struct vg_inv_gpu *gpu = node_device_find_gpu(inventory, physical ? physical : device->parent);

    if (!gpu || gpu->mdevs->len >= VG_INVENTORY_MDEVS_MAX)
        return;
    struct vg_inv_mdev *mdev = vg_record_new(&vg_inv_mdev_record);
    mdev->uuid = g_strdup(device->uuid);
    mdev->type = g_strdup(device->type);
    mdev->function = physical ? g_strdup(device->parent) : NULL;
    mdev->inactive = device->inactive;
    g_ptr_array_add(gpu->mdevs, mdev);
}

void
vg_node_devices_put(const GPtrArray *devices, vg_inventory *inventory)
{
    g_autoptr(GPtrArray) sorted = g_ptr_array_new();
    g_autoptr(GHashTable) parts = node_device_map_parts(devices);

    for (unsigned i = 0; i < devices->len; i++)
        g_ptr_array_add(sorted, devices->pdata[i]);
    g_ptr_array_sort(sorted, compare_devices);
    for (unsigned i = 0; i < sorted->len; i++) {
        const vg_node_device *device = sorted->pdata[i];
        if (device->kind == VG_NODE_DEVICE_GPU && !g_hash_table_contains(parts, device->address))
            put_gpu(device, inventory);
    }
    for (unsigned i = 0; i < sorted->len; i++) {
        const vg_node_device *device = sorted->pdata[i];
        struct vg_inv_gpu *gpu = NULL;
        if (device->kind == VG_NODE_DEVICE_MDEV)
            put_mdev(device, parts, inventory);
        else if (device->kind == VG_NODE_DEVICE_FUNCTION ||
                 device->kind == VG_NODE_DEVICE_NEIGHBOUR)
            node_device_put_function(device, inventory);
        else if (device->kind == VG_NODE_DEVICE_GPU)
            gpu = node_device_find_gpu(inventory, g_hash_table_lookup(parts, device->address));
        if (gpu)
            node_device_put_vf(device, gpu);
    }
    for (unsigned i = 0; i < inventory->gpus->len; i++)
        vg_inv_gpu_count_room(inventory->gpus->pdata[i]);
    vg_gpu_parts_assign_vms(inventory);
}
