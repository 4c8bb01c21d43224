/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports the state of paths on this host to the vgpud of a host whose VM needs them.
 */
#include "config.h"

#include "api/parse.h"
#include "api/route.h"
#include "base/error.h"
#include "base/json.h"
#include "model/path.h"

static void
paths_run(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    const struct vg_paths_question *question = request->job_data;
    struct vg_paths_answer answer = {NULL};
    GError *err = NULL;

    answer.items = backend->moves->look_at_paths(backend->data, question->paths, &err);
    if (!answer.items) {
        vg_answer_error(request, err);
        return;
    }
    vg_answer_json(request, 200, vg_record_write(&vg_paths_answer_record, &answer));
    g_ptr_array_unref(answer.items);
}

void
vg_handle_paths(struct vg_request *request)
{
    const GByteArray *body = request->body;
    GError *err = NULL;
    struct vg_paths_question *question = vg_parse_record(
        body ? (const char *)body->data : "", body ? body->len : 0,
        "{\"paths\": [\"/var/lib/libvirt/images/guest0.qcow2\"]}", &vg_paths_question_record, &err);

    for (guint i = 0; question && i < question->paths->len; i++) {
        const char *path = question->paths->pdata[i];
        if (path[0] == '/' || err)
            continue;
        vg_error(&err, VG_E_INVALID, "paths[%u]: '%s' does not start with /", i, path);
    }
    if (err) {
        vg_paths_question_free(question);
        vg_answer_error(request, err);
        return;
    }
    request->job_data = question;
    request->job_data_free = vg_paths_question_free;
    /* The check has its own time limit, and a limited number of checks may hang. */
    request->lane = VG_LANE_MOVE;
    request->job = paths_run;
}
