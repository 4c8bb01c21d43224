/* SPDX-License-Identifier: Apache-2.0
 *
 * The result of a simulation as the document of `vgpuctl simulate -o json`. The caller releases it
 * with json_object_put().
 */
#ifndef VG_CLI_SIMULATE_JSON_H
#define VG_CLI_SIMULATE_JSON_H

#include <json-c/json.h>

#include "policy/gpusched.h"

json_object *vg_simulation_to_json(const struct vg_gpusched_result *result);

/* The same for a GPU with its own name and engine names: char *, one for each engine. */
json_object *vg_simulation_to_json_of(const struct vg_gpusched_result *result, const char *device,
                                      const GPtrArray *engines);

#endif
