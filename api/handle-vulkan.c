/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles Vulkan in the definitions of VMs.
 */
#include "config.h"

#include "api/route.h"
#include "model/vulkan.h"

static void
vulkan_run(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    GError *err = NULL;
    g_autoptr(vg_vulkan_change) change =
        backend->moves->set_vulkan(backend->data, request->id, request->job_data, &err);

    request->object = g_strdup(request->id);
    if (change)
        vg_answer_json(request, 200, vg_record_write(&vg_vulkan_change_record, change));
    else
        vg_answer_error(request, err);
}

void
vg_handle_vulkan(struct vg_request *request)
{
    const GByteArray *body = request->body;
    GError *err = NULL;
    struct vg_vulkan_request *wanted =
        vg_parse_record(body ? (const char *)body->data : "", body ? body->len : 0,
                        "{\"enabled\": true, \"dry_run\": true}", &vg_vulkan_request_record, &err);

    if (!wanted || vg_vulkan_request_check(wanted, &err) < 0 ||
        vg_request_name_vm(request, &request->id, &err) < 0) {
        vg_vulkan_request_free(wanted);
        vg_answer_error(request, err);
        return;
    }
    vg_request_accept_write(request, wanted, vg_vulkan_request_free, VG_LANE_HERE, vulkan_run);
}
