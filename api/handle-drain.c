/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles requests to empty hosts.
 */
#include "config.h"

#include "api/person.h"
#include "api/route.h"
#include "base/log.h"
#include "model/drain.h"

#define VG_LOG_TAG "api"

static void
drain_answer(struct vg_request *request, vg_drain *take_drain, GError *take_err)
{
    g_autoptr(vg_drain) drain = take_drain;

    if (drain)
        vg_answer_json(request, 200, vg_record_write(&vg_drain_record, drain));
    else
        vg_answer_error(request, take_err);
}

static void
drain_run_read(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    GError *err = NULL;
    vg_drain *drain = backend->moves->read_drain(backend->data, request->id, false, &err);

    drain_answer(request, drain, err);
}

static void
drain_run_begin(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    const char *person = request->job_data;
    GError *err = NULL;
    vg_drain *drain = !person
                          ? backend->moves->read_drain(backend->data, request->id, true, &err)
                          : backend->moves->begin_drain(backend->data, request->id, person, &err);

    request->object = g_strdup(request->id);
    drain_answer(request, drain, err);
}

static void
drain_run_end(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    GError *err = NULL;

    request->object = g_strdup(request->id);
    if (backend->moves->end_drain(backend->data, request->id, request->job_data, &err) < 0)
        vg_answer_error(request, err);
    else
        request->answer.status = 204;
}

static void
drain_accept(struct vg_request *request)
{
    vg_log_notice("write accepted by=\"%s\" from=\"%s\" route=\"%s %s\" request=%s",
                  request->identity.name, request->origin, request->method, request->route->path,
                  request->request_id);
}

/* Checks that a peer's request concerns this host. */
static int
drain_check(const struct vg_request *request, GError **err)
{
    const struct vg_backend *backend = request->backend;
    g_autoptr(vg_view) view = backend->measurement->view(backend->data);

    return vg_person_check_here(request, g_strcmp0(request->id, view->inventory->host) != 0, err);
}

void
vg_handle_read_drain(struct vg_request *request)
{
    GError *err = NULL;

    if (drain_check(request, &err) < 0) {
        vg_answer_error(request, err);
        return;
    }
    request->hosts[0] = g_strdup(request->id);
    request->lane = VG_LANE_ASK;
    request->job = drain_run_read;
}

void
vg_handle_begin_drain(struct vg_request *request)
{
    const GByteArray *body = request->body;
    GError *err = NULL;
    struct vg_drain_request *wanted =
        vg_parse_record(body ? (const char *)body->data : "", body ? body->len : 0,
                        "{\"dry_run\": false}", &vg_drain_request_record, &err);

    g_autofree char *person = NULL;
    if (!wanted || drain_check(request, &err) < 0 ||
        (!wanted->dry_run && !(person = vg_person_settle(request, wanted->on_behalf_of, &err)))) {
        vg_drain_request_free(wanted);
        vg_answer_error(request, err);
        return;
    }
    vg_drain_request_free(wanted);
    drain_accept(request);
    request->job_data = g_steal_pointer(&person); /* NULL for a dry run */
    request->job_data_free = g_free;
    request->hosts[0] = g_strdup(request->id);
    request->lane = VG_LANE_ASK;
    request->job = drain_run_begin;
}

void
vg_handle_end_drain(struct vg_request *request)
{
    GError *err = NULL;

    if (drain_check(request, &err) == 0)
        request->job_data = vg_person_settle(request, NULL, &err);
    if (!request->job_data) {
        vg_answer_error(request, err);
        return;
    }
    request->job_data_free = g_free;
    drain_accept(request);
    request->hosts[0] = g_strdup(request->id);
    request->lane = VG_LANE_ASK;
    request->job = drain_run_end;
}
