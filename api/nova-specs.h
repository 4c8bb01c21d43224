/* SPDX-License-Identifier: Apache-2.0
 *
 * What the extra specs of a flavor of nova ask of GPUs. Pure; any thread.
 */
#ifndef VG_API_NOVA_SPECS_H
#define VG_API_NOVA_SPECS_H

#include <json-c/json.h>

#include "model/arrival.h"

/* Fills class, type, number and traits of GPUs from the object {"KEY": "VALUE", ...}; NULL, or what
 * is not as expected, is as if it were not there. Keys: vgpud:class, vgpud:gpu_type, resources:VGPU
 * and trait:CUSTOM_..., the latter two also of numbered and named groups (resources1:VGPU,
 * trait_GPU:CUSTOM_...). All groups with vGPUs are summed up; a trait counts that all of them have.
 */
void vg_nova_specs_read(json_object *extra_specs, struct vg_arrival_query *query);

#endif
