/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles tokens and the audit log.
 */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "api/route.h"
#include "api/sse.h"
#include "base/clock.h"
#include "base/json.h"

/* ---- tokens ---- */

static void
access_add_time(json_object *object, const char *name, int64_t t_ns)
{
    if (t_ns == 0)
        vg_json_add(object, name, NULL);
    else
        vg_json_add_int64(object, name, t_ns);
}

static json_object *
access_token_to_json(const struct vg_token *token)
{
    json_object *object = json_object_new_object();

    vg_json_add_string(object, "name", token->name);
    vg_json_add_string(object, "role", vg_role_names[token->role]);
    vg_json_add_int64(object, "made_ns", token->made_ns);
    access_add_time(object, "expires_ns", token->expires_ns);
    vg_json_add_bool(object, "expired",
                     token->expires_ns != 0 && token->expires_ns <= vg_clock_realtime_ns());
    access_add_time(object, "used_ns", token->used_ns);
    return object;
}

void
vg_handle_list_tokens(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    GError *err = NULL;
    g_autoptr(GPtrArray) tokens = backend->access->list_tokens(backend->data, &err);

    if (!tokens) {
        vg_answer_error(request, err);
        return;
    }
    json_object *object = json_object_new_object();
    json_object *items = json_object_new_array();

    for (guint i = 0; i < tokens->len; i++)
        vg_json_append(items, access_token_to_json(tokens->pdata[i]));
    vg_json_add(object, "items", items);
    vg_answer_json(request, 200, object);
}

static void
access_run_create(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    const struct vg_token_request *wanted = request->job_data;
    const int64_t now_ns = vg_clock_realtime_ns();
    GError *err = NULL;
    struct vg_token token = {.name = wanted->name, .role = wanted->role, .made_ns = now_ns};

    if (wanted->lifetime_s > 0)
        token.expires_ns = vg_time_sum(now_ns, wanted->lifetime_s * VG_NS_PER_S);
    request->object = g_strdup(wanted->name);
    g_autofree char *text = backend->access->create_token(backend->data, wanted->name, wanted->role,
                                                          token.expires_ns, &err);
    if (!text) {
        vg_answer_error(request, err);
        return;
    }
    json_object *object = access_token_to_json(&token);
    vg_json_add_string(object, "token", text);
    vg_answer_json(request, 201, object);
}

void
vg_handle_create_token(struct vg_request *request)
{
    struct vg_token_request *wanted = g_new0(struct vg_token_request, 1);
    const GByteArray *body = request->body;
    GError *err = NULL;

    request->job_data = wanted;
    request->job_data_free = vg_token_request_free;
    if (vg_parse_token_request(body ? (const char *)body->data : "", body ? body->len : 0, wanted,
                               &err) < 0)
        vg_answer_error(request, err);
    else
        request->job = access_run_create;
}

static void
access_run_revoke(struct vg_request *request)
{
    GError *err = NULL;

    if (request->backend->access->revoke_token(request->backend->data, request->id, &err) != 0)
        vg_answer_error(request, err);
    else
        request->answer.status = 204;
    /* Streams admitted by the token now end. */
    vg_waits_wake(request->api);
}

void
vg_handle_revoke_token(struct vg_request *request)
{
    request->job = access_run_revoke;
}

/* ---- audit ---- */

struct access_page {
    int64_t before;
    int64_t limit;
};

static json_object *
access_entry_to_json(const struct vg_audit_entry *entry)
{
    json_object *object = json_object_new_object();

    vg_json_add_int64(object, "seq", entry->seq);
    vg_json_add_int64(object, "at_ns", entry->at_ns);
    vg_json_add_string(object, "identity", *entry->identity ? entry->identity : NULL);
    vg_json_add_string(object, "role", vg_role_names[entry->role]);
    vg_json_add_string(object, "origin", entry->origin);
    vg_json_add_string(object, "method", entry->method);
    vg_json_add_string(object, "route", entry->route);
    vg_json_add_string(object, "object", entry->object);
    vg_json_add_int64(object, "status", entry->status);
    vg_json_add_string(object, "request_id", entry->request_id);
    vg_json_add_int64(object, "count", (int64_t)MIN(entry->count, (uint64_t)VG_JSON_INT_MAX));
    return object;
}

static void
access_run_audit(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    const struct access_page *page = request->job_data;
    GError *err = NULL;
    /* Request one more entry to detect a next page. */
    g_autoptr(GPtrArray) entries =
        backend->access->list_audit(backend->data, page->before, (size_t)page->limit + 1, &err);
    g_autofree char *next = NULL;

    if (!entries) {
        vg_answer_error(request, err);
        return;
    }
    json_object *object = json_object_new_object();
    json_object *items = json_object_new_array();
    for (guint i = 0; i < entries->len && i < (guint)page->limit; i++) {
        const struct vg_audit_entry *entry = entries->pdata[i];
        vg_json_append(items, access_entry_to_json(entry));
        if (i + 1 == (guint)page->limit && entries->len > i + 1) {
            g_autofree char *text = g_strdup_printf("audit\n%" PRId64, entry->seq);
            next = vg_marker_new(text);
        }
    }
    vg_json_add(object, "items", items);
    vg_json_add_string(object, "next", next);
    vg_answer_json(request, 200, object);
}

static int
access_read_marker(const char *marker, int64_t *ret_before, GError **err)
{
    g_autofree char *text = marker ? vg_marker_read(marker, err) : NULL;

    if (!marker)
        return 0;
    if (!text)
        return -1;
    if (!g_str_has_prefix(text, "audit\n") || !vg_parse_int(text + strlen("audit\n"), ret_before))
        return vg_error(err, VG_E_INVALID, "marker: it is not from the audit log");
    return 0;
}

void
vg_handle_audit(struct vg_request *request)
{
    struct access_page page = {.before = INT64_MAX, .limit = VG_LIMIT_DEFAULT};
    GError *err = NULL;

    if (vg_query_int(&request->query, "limit", 1, VG_LIMIT_MAX, &page.limit, &err) < 0 ||
        vg_query_length(&request->query, "marker", VG_MARKER_MAX, &err) < 0 ||
        access_read_marker(vg_query_get(&request->query, "marker"), &page.before, &err) < 0) {
        vg_answer_error(request, err);
        return;
    }
    request->job_data = g_memdup2(&page, sizeof(page));
    request->job_data_free = g_free;
    request->job = access_run_audit;
}
