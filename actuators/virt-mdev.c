/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates mediated devices, and removes those that are no longer used. vgpud removes only devices
 * that a vgpud created. It recognises them by their UUIDs, on any host and even if its state was
 * lost: the UUIDs have version 8, and their first 60 bits are computed from the last 62 random
 * bits.
 */
#include "config.h"

#include "actuators/virt-mdev.h"

#include <string.h>

#include <libvirt/virterror.h>

#include "model/gpu-part.h"

G_DEFINE_AUTOPTR_CLEANUP_FUNC(virNodeDevice, virNodeDeviceFree)

/* Offsets in the text of a UUID: the version digit and the first random digit. */
#define VERSION_AT 14
#define CHANCE_AT  19

/* Returns the marked UUID with the same random part. */
static char *
mdev_mark(const char *uuid)
{
    g_autofree char *chance = g_ascii_strdown(uuid + CHANCE_AT, -1);
    g_autofree char *text = g_strconcat("mediated device of vgpud ", chance, NULL);
    g_autofree char *sum = g_compute_checksum_for_string(G_CHECKSUM_SHA256, text, -1);

    return g_strdup_printf("%.8s-%.4s-8%.3s-%s", sum, sum + 8, sum + 12, chance);
}

char *
vg_mdev_uuid_new(void)
{
    g_autofree char *random = g_uuid_string_random();

    return mdev_mark(random);
}

bool
vg_mdev_uuid_is_own(const char *uuid)
{
    if (!uuid || !g_uuid_string_is_valid(uuid) || uuid[VERSION_AT] != '8')
        return false;
    g_autofree char *own = mdev_mark(uuid);
    return g_ascii_strcasecmp(uuid, own) == 0;
}

char *
vg_virt_host_make_mdev(vg_virt_host *host, const char *parent, const char *type)
{
    g_autofree char *uuid = vg_mdev_uuid_new();
    g_autofree char *xml =
        g_markup_printf_escaped("<device><parent>%s</parent><capability type='mdev'>"
                                "<type id='%s'/><uuid>%s</uuid></capability></device>",
                                parent, type, uuid);
    g_autoptr(virNodeDevice) made = virNodeDeviceCreateXML(host->connection, xml, 0);
    g_autofree char *text = made ? vg_virt_own(virNodeDeviceGetXMLDesc(made, 0)) : NULL;
    g_autoptr(vg_node_device) device = text ? vg_node_device_read(text, NULL) : NULL;

    return device && device->uuid ? g_strdup(device->uuid) : NULL;
}

/* ---- removing ---- */

static bool
mdev_is_free(const GPtrArray *parts, const char *uuid)
{
    for (unsigned i = 0; i < parts->len; i++) {
        const struct vg_gpu_part *part = parts->pdata[i];
        if (part->kind == VG_GPU_PART_MDEV && part->state == VG_GPU_PART_FREE &&
            g_ascii_strcasecmp(part->address, uuid) == 0)
            return true;
    }
    return false;
}

static int
mdev_remove(vg_virt_host *host, const GPtrArray *node_devices, const char *uuid, GError **err)
{
    for (unsigned i = 0; i < node_devices->len; i++) {
        const vg_node_device *mdev = node_devices->pdata[i];
        if (mdev->kind != VG_NODE_DEVICE_MDEV || !mdev->name || !mdev->uuid ||
            g_ascii_strcasecmp(mdev->uuid, uuid) != 0)
            continue;
        g_autoptr(virNodeDevice) device = virNodeDeviceLookupByName(host->connection, mdev->name);
        if (device && virNodeDeviceDestroy(device) < 0)
            return vg_virt_host_failed(host, err, "cannot remove the mediated device %s", uuid);
    }
    return 0;
}

int
vg_virt_host_drop_mdevs(vg_virt_host *host, const GPtrArray *devices, const GPtrArray *taken,
                        GError **err)
{
    if (vg_virt_host_connect(host, err) < 0)
        return -1;
    g_autoptr(GPtrArray) node_devices = vg_virt_host_node_devices(host, err);
    vg_inventory *inventory = node_devices ? vg_virt_host_inventory(host, node_devices, err) : NULL;
    if (!inventory)
        return -1;
    g_autoptr(GPtrArray) parts = vg_gpu_parts(inventory, taken);
    int result = 0;

    for (unsigned i = 0; i < devices->len && result == 0; i++) {
        const struct vg_move_device *device = devices->pdata[i];
        if (device->kind == VG_MOVE_DEVICE_MDEV && vg_mdev_uuid_is_own(device->target_address) &&
            mdev_is_free(parts, device->target_address))
            result = mdev_remove(host, node_devices, device->target_address, err);
    }
    vg_inventory_free(inventory);
    return result;
}
