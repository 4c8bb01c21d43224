/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "host/virt-devices.h"

#include <stdlib.h>

#include <libvirt/virterror.h>

G_DEFINE_AUTOPTR_CLEANUP_FUNC(virNodeDevice, virNodeDeviceFree)

static void
devices_free_one(void *device)
{
    vg_node_device_free(device);
}

/* Sorts devices by name, because libvirt's order is random, and two choices must have the same
 * result. */
static int
devices_compare(const void *a, const void *b)
{
    const vg_node_device *x = *(vg_node_device *const *)a, *y = *(vg_node_device *const *)b;

    return g_strcmp0(x->name, y->name);
}

/* Lists the handles. The test driver accepts no flags, and libvirt before 7.3 does not know the
 * flags that exclude inactive devices. */
static int
devices_list_handles(virConnectPtr connection, virNodeDevicePtr **ret)
{
    int n = virConnectListAllNodeDevices(connection, ret,
                                         VIR_CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV |
                                             VIR_CONNECT_LIST_NODE_DEVICES_CAP_MDEV);

    return n >= 0 ? n : virConnectListAllNodeDevices(connection, ret, 0);
}

/* Reads a device. Returns NULL if it is of no interest, or no longer exists. */
static vg_node_device *
devices_read(virNodeDevicePtr handle, GHashTable *boring)
{
    const char *name = virNodeDeviceGetName(handle);

    /* A host has hundreds of PCI devices, and libvirt needs a fraction of a millisecond for each
     * text. */
    if (!name || (boring && g_hash_table_contains(boring, name)))
        return NULL;
    char *text = virNodeDeviceGetXMLDesc(handle, 0);
    g_autofree char *xml = g_strdup(text);
    free(text);
    if (!xml)
        return NULL;
    g_autoptr(vg_node_device) device = vg_node_device_read(xml, NULL);
    if (device && device->kind != VG_NODE_DEVICE_OTHER) {
        /* Drivers that do not support this, and versions before 7.8, only know active devices. */
        device->inactive =
            device->kind == VG_NODE_DEVICE_MDEV && virNodeDeviceIsActive(handle) == 0;
        return g_steal_pointer(&device);
    }
    if (boring)
        g_hash_table_add(boring, g_strdup(name));
    return NULL;
}

GPtrArray *
vg_virt_devices_list(virConnectPtr connection, GHashTable *boring)
{
    virNodeDevicePtr *handles = NULL;
    int n = devices_list_handles(connection, &handles);

    if (n < 0)
        return NULL;
    GPtrArray *devices = g_ptr_array_new_with_free_func(devices_free_one);
    for (int i = 0; i < n; i++) {
        g_autoptr(virNodeDevice) handle = handles[i];
        vg_node_device *device = devices_read(handle, boring);
        if (device)
            g_ptr_array_add(devices, device);
    }
    free(handles);
    virResetLastError();
    g_ptr_array_sort(devices, devices_compare);
    return devices;
}

bool
vg_virt_devices_cut(void)
{
    const virError *error = virGetLastError();

    return error && error->domain == VIR_FROM_RPC;
}
