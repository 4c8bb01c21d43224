/* SPDX-License-Identifier: Apache-2.0
 *
 * GPU requirements in the extra specs of a nova flavor. Pure; any thread.
 */
#ifndef VG_API_NOVA_SPECS_H
#define VG_API_NOVA_SPECS_H

#include <json-c/json.h>

#include "model/arrival.h"

/* Sets class, type, number and traits of GPUs from the object {"KEY": "VALUE", ...}. NULL, and
 * unexpected values, are ignored. Keys: vgpud:class, vgpud:gpu_type, resources:VGPU and
 * trait:CUSTOM_..., the latter two also in numbered and named groups (resources1:VGPU,
 * trait_GPU:CUSTOM_...). The vGPUs of all groups are added up. A trait counts if all of them have
 * it. */
void vg_nova_specs_read(json_object *extra_specs, struct vg_arrival_query *query);

#endif
