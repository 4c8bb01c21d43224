/* SPDX-License-Identifier: Apache-2.0
 *
 * Names devices as the guest finds them, and compares them with the guest's own names. Pure.
 */
#ifndef VG_ACTUATORS_GUEST_DEVICES_H
#define VG_ACTUATORS_GUEST_DEVICES_H

#include <glib.h>
#include <json-c/json.h>

/* Adds a list "devices" to a request. Fails with VG_E_INVALID if one of them (struct
 * vg_move_device) has no known place in the guest. */
int vg_guest_devices_add(json_object *object, const GPtrArray *devices, GError **err);

/* Returns the first device of such a list that the guest does not name in its own list, which has
 * to be in the same order and may be anything; NULL if it names all. Borrowed from the first list,
 * which may be NULL. */
json_object *vg_guest_devices_missing(json_object *asked, json_object *named);

#endif
