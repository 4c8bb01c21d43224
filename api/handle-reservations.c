/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles reservations of this host's GPUs for moves.
 */
#include "config.h"

#include "api/route.h"
#include "base/json.h"
#include "base/log.h"
#include "model/reservation.h"

#define VG_LOG_TAG "api"

static void
reservation_run_make(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    struct vg_reservation *wanted = request->job_data;
    GError *err = NULL;

    request->object = g_strdup(wanted->vm);
    if (backend->moves->reserve(backend->data, wanted, &err) < 0) {
        vg_answer_error(request, err);
        return;
    }
    if (wanted->dry_run) {
        vg_answer_json(request, 200, vg_record_write(&vg_reservation_record, wanted));
        return;
    }
    if (!request->waits(request)) {
        vg_log_info("reservation cancelled: its client has disconnected id=%s", wanted->id);
        (void)!backend->moves->release(backend->data, wanted->id, wanted->asked_by, NULL);
    }
    vg_answer_json(request, 201, vg_record_write(&vg_reservation_record, wanted));
    request->answer.location = g_strconcat("/v1/reservations/", wanted->id, NULL);
    g_free(request->object);
    request->object = g_strdup(wanted->id);
}

void
vg_handle_reserve(struct vg_request *request)
{
    const GByteArray *body = request->body;
    GError *err = NULL;
    struct vg_reservation *wanted = vg_parse_record(
        body ? (const char *)body->data : "", body ? body->len : 0,
        "{\"move_id\": \"move-0123456789abcdef\", \"vm\": \"guest0\", \"uuid\": \"...\", \"from\": "
        "\"host-a\", \"lease_s\": 300, \"devices\": [{\"kind\": \"mdev\", \"type\": "
        "\"nvidia-63\"}]}",
        &vg_reservation_record, &err);

    if (!wanted) {
        vg_answer_error(request, err);
        return;
    }
    g_free(wanted->asked_by);
    wanted->asked_by = g_strdup(request->identity.name);
    request->job_data = wanted;
    request->job_data_free = vg_reservation_free;
    request->hosts[0] = g_strdup("");
    request->lane = VG_LANE_HERE;
    request->job = reservation_run_make;
}

static void
reservation_run_renew(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    GError *err = NULL;
    g_autoptr(vg_reservation) reservation =
        backend->moves->renew(backend->data, request->id, request->identity.name,
                              *(const int64_t *)request->job_data, &err);

    if (reservation)
        vg_answer_json(request, 200, vg_record_write(&vg_reservation_record, reservation));
    else
        vg_answer_error(request, err);
}

void
vg_handle_renew(struct vg_request *request)
{
    struct lease {
        int64_t lease_s;
    };
#define THIS lease
    static const struct vg_field fields[] = {
        VG_ROW_INT(lease_s, VG_FIELD_REQUIRED, VG_LEASE_MIN_S, VG_LEASE_MAX_S),
    };
    static const struct vg_record_type type = VG_ROW_TYPE(fields);
#undef THIS
    const GByteArray *body = request->body;
    GError *err = NULL;
    struct lease *lease = vg_parse_record(body ? (const char *)body->data : "",
                                          body ? body->len : 0, "{\"lease_s\": 300}", &type, &err);

    if (!lease) {
        vg_answer_error(request, err);
        return;
    }
    request->job_data = g_memdup2(&lease->lease_s, sizeof(lease->lease_s));
    request->job_data_free = g_free;
    request->lane = VG_LANE_KEEP;
    request->job = reservation_run_renew;
    vg_record_free(&type, lease);
}

static void
reservation_run_release(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    GError *err = NULL;

    if (backend->moves->release(backend->data, request->id, request->identity.name, &err) != 0)
        vg_answer_error(request, err);
    else
        request->answer.status = 204;
}

void
vg_handle_release(struct vg_request *request)
{
    request->lane = VG_LANE_KEEP;
    request->job = reservation_run_release;
}

static void
reservation_run_list(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    GError *err = NULL;
    g_autoptr(GPtrArray) list = backend->moves->list_reservations(backend->data, &err);

    if (!list) {
        vg_answer_error(request, err);
        return;
    }
    json_object *object = json_object_new_object();
    json_object *items = json_object_new_array();
    for (guint i = 0; i < list->len; i++)
        vg_json_append(items, vg_record_write(&vg_reservation_record, list->pdata[i]));
    vg_json_add(object, "items", items);
    vg_answer_json(request, 200, object);
}

void
vg_handle_list_reservations(struct vg_request *request)
{
    request->lane = VG_LANE_KEEP;
    request->job = reservation_run_list;
}
