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
#include "host/device-xml.h"
#include "host/domain-xml.h"
#include "host/move-blockers.h"
#include "host/move-xml.h"
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

/* Whatever is made of it can be read again. */
static void
make_elements(const GPtrArray *devices)
{
    for (unsigned i = 0; i < devices->len; i++) {
        const vg_domain_device *device = devices->pdata[i];
        g_autofree char *xml = vg_device_xml_make(device->xml, "ua-x", device->guest_address,
                                                  device->source_address, NULL);
        g_autoptr(vg_domain_device) again = xml ? vg_domain_device_read(xml, NULL) : NULL;
        if (!again || !vg_domain_device_is(again, "ua-x", NULL))
            vg_bug("cannot be made anew: %s", device->xml);
    }
}

static void
try_move(const char *text)
{
    static const char *const aliases[] = {"ua-gpu0", "hostdev0", NULL};
    static const char *const addresses[] = {NULL, "0000:41:00.0"};
    g_autoptr(GPtrArray) devices = vg_domain_devices_read(text, NULL);
    g_autoptr(GPtrArray) problems = g_ptr_array_new_with_free_func(g_free);
    g_autoptr(vg_move_needs) needs = vg_move_needs_read(text, NULL);
    bool changed;

    if (!devices)
        return;
    make_elements(devices);
    vg_move_xml_problems(text, aliases, problems, NULL);
    GPtrArray *blockers =
        vg_move_blockers(text, aliases, &(struct vg_virt_versions){11003000, 10000000}, NULL);
    if (blockers)
        g_ptr_array_unref(blockers);
    g_autofree char *left = vg_domain_xml_without(text, aliases, addresses, 2, &changed, NULL);
    g_autoptr(GPtrArray) others = vg_domain_devices_read(left, NULL);
    if (!needs || !others || vg_domain_devices_find(others, "ua-gpu0", NULL))
        vg_bug("what is left is wrong: %s", left);
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
    try_move(text);
    vg_capabilities_xml_read(text, inventory, NULL);
    vg_capabilities_xml_user(text);
    vg_node_device *device = vg_node_device_read(text, NULL);
    if (device)
        g_ptr_array_add(devices, device);
    vg_node_devices_put(devices, inventory);
    check(inventory);
    return 0;
}
