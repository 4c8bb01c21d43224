/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as libvirt's XML of a domain, of a device of the host, of the host: no crash, and what
 * is taken from them keeps the limits of the inventory.
 */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "host/domain-xml.h"
#include "host/node-device.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
free_device(void *device)
{
    vg_node_device_free(device);
}

/* Read back, which checks every length, number and encoding. */
static void
check(const vg_inventory *inventory)
{
    json_object *object = vg_record_write(&vg_inventory_record, inventory);
    struct vg_json_node root = vg_json_root(object);
    g_autoptr(GError) err = NULL;
    g_autoptr(vg_inventory) again = vg_record_read(&vg_inventory_record, &root, &err);

    if (!again)
        vg_bug("cannot be read back: %s", err->message);
    json_object_put(object);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    g_autofree char *text = g_strndup((const char *)data, size);
    g_autoptr(vg_inventory) inventory = vg_inventory_new("host");
    g_autoptr(GPtrArray) devices = g_ptr_array_new_with_free_func(free_device);
    struct vg_inv_vm *vm = vg_inventory_add_vm(inventory, "vm");

    if (vg_domain_xml_read(text, "host-cpu", vm, NULL) == 0)
        vg_domain_xml_read(text, NULL, vg_inventory_add_vm(inventory, "twice"), NULL);
    vg_capabilities_xml_read(text, inventory, NULL);
    vg_node_device *device = vg_node_device_read(text, NULL);
    if (device)
        g_ptr_array_add(devices, device);
    vg_node_devices_put(devices, inventory);
    check(inventory);
    return 0;
}
