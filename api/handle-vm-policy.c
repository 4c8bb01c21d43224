/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles the policy's mode for a VM.
 */
#include "config.h"

#include "api/route.h"
#include "model/vm-policy.h"

static void
vm_policy_run(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    const struct vg_vm_policy_request *wanted = request->job_data;
    GError *err = NULL;

    request->object =
        g_strdup_printf("%s policy=%s", request->id, vg_policy_mode_names[wanted->mode]);
    if (backend->acts->set_vm_mode(backend->data, request->id, wanted->mode, &err) < 0)
        vg_answer_error(request, err);
    else
        vg_answer_json(request, 200, vg_record_write(&vg_vm_policy_request_record, wanted));
}

static void
vm_policy_free(void *wanted)
{
    vg_record_free(&vg_vm_policy_request_record, wanted);
}

void
vg_handle_vm_policy(struct vg_request *request)
{
    const GByteArray *body = request->body;
    GError *err = NULL;
    struct vg_vm_policy_request *wanted =
        vg_parse_record(body ? (const char *)body->data : "", body ? body->len : 0,
                        "{\"mode\": \"propose\"}", &vg_vm_policy_request_record, &err);

    if (wanted && wanted->mode == VG_POLICY_OBSERVE) {
        vm_policy_free(wanted);
        vg_answer_problem(request, VG_E_INVALID,
                          "mode: it must be never, propose, act, or an empty string");
        return;
    }
    if (!wanted || vg_request_name_vm(request, &request->id, &err) < 0) {
        if (wanted)
            vm_policy_free(wanted);
        vg_answer_error(request, err);
        return;
    }
    vg_request_accept_write(request, wanted, vm_policy_free, VG_LANE_HERE, vm_policy_run);
}
