/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles the service itself: versions, API description, health and metrics.
 */
#include "config.h"

#include <string.h>

#include "api/route.h"
#include "api/server.h"
#include "base/clock.h"
#include "base/json.h"
#include "schema/schema.h"

static json_object *
new_link(const char *rel, const char *href)
{
    json_object *object = json_object_new_object();

    vg_json_add_string(object, "rel", rel);
    vg_json_add_string(object, "href", href);
    return object;
}

static json_object *
version_to_json(bool all_links)
{
    static const char *const links[][2] = {
        {"contract", "/v1/openapi.json"},
        {"host", "/v1/host"},
        {"vms", "/v1/vms"},
        {"gpus", "/v1/gpus"},
        {"preemptions", "/v1/preemptions"},
        {"snapshot", "/v1/snapshot"},
        {"peers", "/v1/peers"},
        {"plans", "/v1/plans"},
        {"migrations", "/v1/migrations"},
        {"events", "/v1/events"},
        {"health", "/healthz"},
        {"readiness", "/readyz"},
        {"metrics", "/metrics"},
    };
    json_object *object = json_object_new_object();
    json_object *array = json_object_new_array();

    vg_json_add_string(object, "id", "v1");
    vg_json_add_string(object, "status", "CURRENT");
    vg_json_append(array, new_link("self", "/v1"));
    for (size_t i = 0; all_links && i < G_N_ELEMENTS(links); i++)
        vg_json_append(array, new_link(links[i][0], links[i][1]));
    vg_json_add(object, "links", array);
    return object;
}

void
vg_handle_versions(struct vg_request *request)
{
    g_autoptr(vg_view) view = request->backend->measurement->view(request->backend->data);
    json_object *object = json_object_new_object();
    json_object *versions = json_object_new_array();
    struct vg_daemon_stats stats;

    request->backend->measurement->stats(request->backend->data, &stats);
    vg_json_add_string(object, "name", "vgpud");
    vg_json_add_string(object, "version", PACKAGE_VERSION);
    vg_json_add_string(object, "host", view->inventory->host);
    vg_json_add_string(object, "migration_tls", vg_tls_certs_names[stats.migration_tls]);
    vg_json_add_int64(object, "time_ns", vg_clock_realtime_ns());
    vg_json_append(versions, version_to_json(false));
    vg_json_add(object, "versions", versions);
    vg_answer_json(request, 200, object);
}

void
vg_handle_version(struct vg_request *request)
{
    json_object *object = version_to_json(true);
    json_object *client = json_object_new_object();

    vg_json_add_string(client, "identity", request->identity.name);
    vg_json_add_string(client, "role", vg_role_names[request->identity.role]);
    vg_json_add(object, "client", client);
    vg_answer_json(request, 200, object);
}

void
vg_handle_openapi(struct vg_request *request)
{
    vg_answer_fixed(request, "application/json", vg_schema_openapi, vg_schema_openapi_size);
}

void
vg_handle_health(struct vg_request *request)
{
    static const char text[] = "{\"status\":\"ok\"}\n";

    vg_answer_fixed(request, "application/json", text, strlen(text));
}

void
vg_handle_readiness(struct vg_request *request)
{
    g_autoptr(GPtrArray) parts = request->backend->measurement->status(request->backend->data);
    json_object *object = json_object_new_object();
    bool ready = true;

    for (guint i = 0; i < parts->len; i++)
        ready = ready && ((const struct vg_part_status *)parts->pdata[i])->ready;
    vg_json_add_bool(object, "ready", ready);
    vg_json_add(object, "parts", vg_doc_parts(parts));
    vg_answer_json(request, ready ? 200 : 503, object);
    request->answer.retry_after_s = ready ? 0 : VG_RETRY_S;
}

void
vg_handle_metrics(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    g_autoptr(vg_view) view = backend->measurement->view(backend->data);
    g_autoptr(GPtrArray) parts = backend->measurement->status(backend->data);
    struct vg_daemon_stats stats = {0};

    g_autoptr(GPtrArray) bare =
        backend->moves ? backend->moves->list_bare(backend->data) : g_ptr_array_new();

    backend->measurement->stats(backend->data, &stats);
    const vg_tls *tls = request->api->tls;
    char *text = vg_doc_metrics(view, parts, &stats, bare, tls ? vg_tls_expires_ns(tls) : INT64_MAX,
                                &request->api->stats);
    vg_answer_fixed(request, "text/plain; version=0.0.4; charset=utf-8", NULL, 0);
    request->answer.body = text;
    request->answer.size = strlen(text);
}
