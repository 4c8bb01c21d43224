/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "actuators/guest-devices.h"

#include <stdio.h>

#include "base/error.h"
#include "base/json.h"
#include "model/migration.h"

/* Describes a device as it appears in the guest, or returns NULL. */
static json_object *
guest_devices_describe(const struct vg_move_device *device)
{
    json_object *object = json_object_new_object();
    unsigned vendor, product;
    char text[16];

    if (device->guest_path) {
        vg_json_add_string(object, "path", device->guest_path);
        return object;
    }
    if (device->kind == VG_MOVE_DEVICE_PCI &&
        sscanf(device->type, "%4x:%4x", &vendor, &product) == 2) {
        snprintf(text, sizeof text, "0x%04x", vendor);
        vg_json_add_string(object, "vendor", text);
        snprintf(text, sizeof text, "0x%04x", product);
        vg_json_add_string(object, "device", text);
        return object;
    }
    json_object_put(object);
    return NULL;
}

int
vg_guest_devices_add(json_object *object, const GPtrArray *devices, GError **err)
{
    json_object *list = json_object_new_array();

    vg_json_add(object, "devices", list);
    for (unsigned i = 0; i < devices->len; i++) {
        const struct vg_move_device *device = devices->pdata[i];
        json_object *match = guest_devices_describe(device);
        if (!match)
            return vg_error(err, VG_E_INVALID, "the guest's address of '%s' is unknown",
                            device->alias);
        vg_json_append(list, match);
    }
    return 0;
}

/* Returns whether the guest's answer names the device of the request. */
static bool
guest_devices_is_same(json_object *asked, json_object *named)
{
    if (!json_object_is_type(named, json_type_object))
        return false;
    json_object_object_foreach(asked, name, wanted)
    {
        json_object *value = json_object_object_get(named, name);
        if (!json_object_is_type(value, json_type_string) ||
            g_ascii_strcasecmp(json_object_get_string(value), json_object_get_string(wanted)) != 0)
            return false;
    }
    return true;
}

json_object *
vg_guest_devices_missing(json_object *asked, json_object *named)
{
    const bool is_list = json_object_is_type(named, json_type_array);

    for (size_t i = 0; asked && i < json_object_array_length(asked); i++) {
        json_object *one = json_object_array_get_idx(asked, i);
        if (!is_list || !guest_devices_is_same(one, json_object_array_get_idx(named, i)))
            return one;
    }
    return NULL;
}
