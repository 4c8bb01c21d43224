/* SPDX-License-Identifier: Apache-2.0
 *
 * A proposal for the mode of a GPU's scheduler as an item of the document of `vgpuctl simulate
 * --propose -o json`. The caller releases it with json_object_put().
 */
#ifndef VG_CLI_MODE_JSON_H
#define VG_CLI_MODE_JSON_H

#include <json-c/json.h>

#include "policy/gpumode.h"

/* notes: char *, or NULL. */
json_object *vg_mode_advice_to_json(const struct vg_gpumode_advice *advice, const char *device,
                                    const GPtrArray *notes);

#endif
