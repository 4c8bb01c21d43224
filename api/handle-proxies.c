/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles OpenCL proxies: their use by VMs, the VMs' limits, and the proxy of each VM.
 */
#include "config.h"

#include "api/person.h"
#include "api/route.h"
#include "base/json.h"
#include "model/proxy-show.h"

/* Creates a list of records, and frees them. */
static json_object *
proxies_list(const struct vg_record_type *type, GPtrArray *take_records)
{
    json_object *items = json_object_new_array();

    for (guint i = 0; i < take_records->len; i++)
        vg_json_append(items, vg_record_write(type, take_records->pdata[i]));
    g_ptr_array_unref(take_records);
    return items;
}

/* Answers with the sockets, which it frees, or with the error. guests may be NULL. */
static void
proxies_answer(struct vg_request *request, GPtrArray *sockets, GPtrArray *guests, GError *err)
{
    if (!sockets) {
        vg_answer_error(request, err);
        return;
    }
    json_object *object = json_object_new_object();
    vg_json_add(object, "items", proxies_list(&vg_proxy_socket_record, sockets));
    if (guests)
        vg_json_add(object, "guests", proxies_list(&vg_proxy_guest_record, guests));
    vg_answer_json(request, 200, object);
}
static void
proxies_run_list(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    const char *host = vg_query_get(&request->query, "host");
    GError *err = NULL;
    GPtrArray *sockets = backend->measurement->list_proxies(backend->data, host, &err);

    proxies_answer(request, sockets,
                   sockets && !host ? backend->measurement->list_proxy_guests(backend->data) : NULL,
                   err);
}

void
vg_handle_proxies(struct vg_request *request)
{
    GError *err = NULL;

    if (vg_query_length(&request->query, "host", VG_MIGRATION_NAME_MAX, &err) < 0 ||
        vg_person_check_here(request, vg_query_get(&request->query, "host") != NULL, &err) < 0) {
        vg_answer_error(request, err);
        return;
    }
    request->lane = vg_query_get(&request->query, "host") ? VG_LANE_ASK : VG_LANE_HERE;
    request->job = proxies_run_list;
}

static void
proxies_run_show(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    GError *err = NULL;
    g_autoptr(vg_proxy_show) show =
        backend->measurement->show_proxy(backend->data, request->id, &err);

    if (show)
        vg_answer_json(request, 200, vg_record_write(&vg_proxy_show_record, show));
    else
        vg_answer_error(request, err);
}

void
vg_handle_show_proxy(struct vg_request *request)
{
    request->lane = VG_LANE_HERE;
    request->job = proxies_run_show;
}

static void
proxies_run_limit(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    GError *err = NULL;
    GPtrArray *sockets =
        backend->moves->limit_proxy(backend->data, request->id, request->job_data, &err);

    request->object = g_strdup(request->id);
    proxies_answer(request, sockets, NULL, err);
}

void
vg_handle_limit_proxy(struct vg_request *request)
{
    const GByteArray *body = request->body;
    GError *err = NULL;
    struct vg_proxy_limit *limit =
        vg_parse_record(body ? (const char *)body->data : "", body ? body->len : 0,
                        "{\"weight\": 3}", &vg_proxy_limit_record, &err);

    if (!limit || vg_request_name_vm(request, &request->id, &err) < 0) {
        vg_proxy_limit_free(limit);
        vg_answer_error(request, err);
        return;
    }
    vg_request_accept_write(request, limit, vg_proxy_limit_free, VG_LANE_HERE, proxies_run_limit);
}

static void
proxies_run_move(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    GError *err = NULL;
    struct vg_proxy_move *move =
        backend->moves->move_proxy(backend->data, request->id, request->job_data, &err);

    request->object = g_strdup(request->id);
    if (!move) {
        vg_answer_error(request, err);
        return;
    }
    vg_answer_json(request, 200, vg_record_write(&vg_proxy_move_record, move));
    vg_proxy_move_free(move);
}

void
vg_handle_move_proxy(struct vg_request *request)
{
    const GByteArray *body = request->body;
    GError *err = NULL;
    struct vg_proxy_move_request *wanted =
        vg_parse_record(body ? (const char *)body->data : "", body ? body->len : 0,
                        "{\"to\": \"proxy:/run/other.sock\"}", &vg_proxy_move_request_record, &err);

    if (!wanted || vg_proxy_move_check(wanted, &err) < 0 ||
        vg_request_name_vm(request, &request->id, &err) < 0) {
        vg_proxy_move_request_free(wanted);
        vg_answer_error(request, err);
        return;
    }
    vg_request_accept_write(request, wanted, vg_proxy_move_request_free, VG_LANE_MOVE,
                            proxies_run_move);
}

static void
proxies_run_reserve(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    const struct vg_proxy_room *room = request->job_data;
    GError *err = NULL;

    request->object = g_strdup(room->id);
    if (backend->moves->reserve_room(backend->data, room, request->identity.name, &err) < 0)
        vg_answer_error(request, err);
    else
        vg_answer_json(request, 200, vg_record_write(&vg_proxy_room_record, room));
}

void
vg_handle_reserve_room(struct vg_request *request)
{
    const GByteArray *body = request->body;
    GError *err = NULL;
    struct vg_proxy_room *room =
        vg_parse_record(body ? (const char *)body->data : "", body ? body->len : 0,
                        "{\"id\": \"a-name\", \"socket\": \"tcp:192.168.122.1:7000\", "
                        "\"seconds\": 60, \"memory_bytes\": 1073741824}",
                        &vg_proxy_room_record, &err);

    if (!room || vg_proxy_room_check(room, &err) < 0) {
        vg_proxy_room_free(room);
        vg_answer_error(request, err);
        return;
    }
    vg_request_accept_write(request, room, vg_proxy_room_free, VG_LANE_HERE, proxies_run_reserve);
}

static void
proxies_run_release(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    GError *err = NULL;

    if (backend->moves->release_room(backend->data, request->id, request->identity.name, &err) < 0)
        vg_answer_error(request, err);
    else
        request->answer.status = 204;
}

void
vg_handle_release_room(struct vg_request *request)
{
    request->lane = VG_LANE_HERE;
    request->job = proxies_run_release;
}
