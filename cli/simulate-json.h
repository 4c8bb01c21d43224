/* SPDX-License-Identifier: Apache-2.0
 *
 * The result of a simulation as the document of `vgpuctl simulate -o json`. The caller puts it.
 */
#ifndef VG_CLI_SIMULATE_JSON_H
#define VG_CLI_SIMULATE_JSON_H

#include <json-c/json.h>

#include "policy/gpusched.h"

json_object *vg_simulation_to_json(const struct vg_gpusched_result *result);

/* The same of a GPU that has a name and engines of its own: char *, one for each of the result. */
json_object *vg_simulation_to_json_of(const struct vg_gpusched_result *result, const char *device,
                                      const GPtrArray *engines);

#endif
