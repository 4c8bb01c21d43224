/* SPDX-License-Identifier: Apache-2.0
 *
 * Describes the largest vGPU profile that is available.
 */
#include "config.h"

#include <string.h>

#include "api/doc.h"
#include "base/json.h"

/* Returns the name of a vGPU type, for example "GRID T4-1Q", or NULL. */
static const char *
doc_largest_name(const vg_view *view, const char *type)
{
    for (guint i = 0; i < view->inventory->gpus->len; i++) {
        const struct vg_inv_gpu *gpu = view->inventory->gpus->pdata[i];
        for (guint k = 0; k < gpu->mdev_types->len; k++) {
            const struct vg_inv_mdev_type *known = gpu->mdev_types->pdata[k];
            if (strcmp(known->type, type) == 0)
                return known->name;
        }
    }
    return NULL;
}

json_object *
vg_doc_gpu_largest(const vg_view *view, const struct vg_gpu_largest *largest)
{
    json_object *object = json_object_new_object();

    vg_json_add_string(object, "state", vg_gpu_largest_names[largest->state]);
    vg_json_add_string(object, "type", largest->type);
    vg_json_add_string(object, "name",
                       largest->type ? doc_largest_name(view, largest->type) : NULL);
    if (largest->memory_bytes > 0)
        vg_json_add_int64(object, "memory_bytes", largest->memory_bytes);
    else
        vg_json_add(object, "memory_bytes", NULL);
    return object;
}
