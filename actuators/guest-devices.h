/* SPDX-License-Identifier: Apache-2.0
 *
 * Identifies devices as the guest finds them, and compares them with the names
 * that the guest uses. Pure.
 */
#ifndef VG_ACTUATORS_GUEST_DEVICES_H
#define VG_ACTUATORS_GUEST_DEVICES_H

#include <glib.h>
#include <json-c/json.h>

/* Adds a list "devices" to a request. Fails with VG_E_INVALID if one of them (struct
 * vg_move_device) has no known place in the guest. */
int vg_guest_devices_add(json_object *object, const GPtrArray *devices, GError **err);

/* Returns the first device of the list that is missing from the guest's list, or NULL if none is
 * missing. The guest's list must have the same order; its contents are not trusted. The result is
 * borrowed from the first list, which may be NULL. */
json_object *vg_guest_devices_missing(json_object *asked, json_object *named);

#endif
