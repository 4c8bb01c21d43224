/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles plans, which the daemon's policy makes and its journal stores. Both may block.
 */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "api/route.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"

#define VG_LOG_TAG "api"

#define PLAN_ID_LEN 21 /* "plan-" and 16 hexadecimal digits */

static void
run_make_plan(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    const struct vg_plan_request *wanted = request->job_data;
    int64_t now = vg_clock_realtime_ns();
    GError *err = NULL;
    g_autoptr(vg_view) view = backend->measurement->view(backend->data);
    int64_t made_ns = 0;
    g_autoptr(vg_plan) plan = backend->plans->make_plan(backend->data, view, wanted->rule,
                                                        wanted->free_up, &made_ns, &err);

    if (!plan) {
        /* The rule is part of the request body, not of its path. */
        if (g_error_matches(err, VG_ERROR, VG_E_NOT_FOUND))
            err->code = VG_E_INVALID;
        vg_log_info("write failed request=%s: %s", request->request_id, err->message);
        vg_answer_error(request, err);
        return;
    }
    json_object *object = vg_plan_to_json(plan);
    vg_doc_add_made(object, made_ns);
    vg_answer_json(request, made_ns < now ? 200 : 201, object);
    request->answer.location = g_strconcat("/v1/plans/", plan->id, NULL);
    request->object = g_strdup(plan->id);
    vg_log_info("write done request=%s status=%u plan=%s", request->request_id,
                request->answer.status, plan->id);
}

void
vg_handle_make_plan(struct vg_request *request)
{
    struct vg_plan_request *wanted = g_new0(struct vg_plan_request, 1);
    const GByteArray *body = request->body;
    GError *err = NULL;

    if (vg_parse_plan_request(body ? (const char *)body->data : "", body ? body->len : 0, wanted,
                              &err) < 0) {
        vg_plan_request_free(wanted);
        vg_answer_error(request, err);
        return;
    }
    if (!wanted->dry_run) {
        vg_plan_request_free(wanted);
        vg_answer_problem(request, VG_E_REFUSED,
                          "dry_run: it must be true, because this version only plans");
        return;
    }
    vg_log_notice("write accepted by=\"%s\" from=\"%s\" route=\"POST %s\" request=%s",
                  request->identity.name, request->origin, request->route->path,
                  request->request_id);
    request->job_data = wanted;
    request->job_data_free = vg_plan_request_free;
    request->lane = VG_LANE_ASK;
    request->job = run_make_plan;
}

static void
run_read_plan(struct vg_request *request)
{
    GError *err = NULL;
    struct vg_saved_plan *saved =
        request->backend->plans->read_plan(request->backend->data, request->id, &err);

    if (!saved) {
        vg_answer_error(request, err);
        return;
    }
    json_object *object = saved->text ? json_tokener_parse(saved->text) : NULL;
    if (json_object_is_type(object, json_type_object)) {
        vg_doc_add_made(object, saved->made_ns);
        vg_answer_json(request, 200, object);
    } else {
        json_object_put(object);
        vg_answer_problem(request, VG_E_BUG, "the stored plan '%s' is not JSON", request->id);
    }
    vg_saved_plan_free(saved);
}

void
vg_handle_plan(struct vg_request *request)
{
    const char *digits = request->id + strlen("plan-");

    if (strlen(request->id) != PLAN_ID_LEN || !g_str_has_prefix(request->id, "plan-") ||
        strspn(digits, "0123456789abcdef") != strlen(digits))
        vg_answer_problem(request, VG_E_NOT_FOUND, "'%s' is not a plan id", request->id);
    else
        request->job = run_read_plan;
}

struct list_job {
    int64_t before_ns;
    int64_t limit;
};

static void
run_list_plans(struct vg_request *request)
{
    const struct list_job *job = request->job_data;
    GError *err = NULL;
    /* Request one more plan to detect a next page. */
    g_autoptr(GPtrArray) plans = request->backend->plans->list_plans(
        request->backend->data, job->before_ns, (size_t)job->limit + 1, &err);

    if (!plans) {
        vg_answer_error(request, err);
        return;
    }
    json_object *object = json_object_new_object();
    json_object *items = json_object_new_array();
    g_autofree char *next = NULL;
    for (guint i = 0; i < plans->len && i < (guint)job->limit; i++) {
        const struct vg_saved_plan *plan = plans->pdata[i];
        json_object *item = json_object_new_object();
        vg_json_add_string(item, "id", plan->id);
        vg_doc_add_made(item, plan->made_ns);
        vg_json_add_string(item, "verdict", plan->verdict);
        vg_json_append(items, item);
        if (i + 1 == (guint)job->limit && plans->len > i + 1) {
            g_autofree char *text = g_strdup_printf("plans\n%" PRId64, plan->made_ns);
            next = vg_marker_new(text);
        }
    }
    vg_json_add(object, "items", items);
    vg_json_add_string(object, "next", next);
    vg_answer_json(request, 200, object);
}

static int
handle_plans_read_marker(const char *marker, int64_t *ret_before_ns, GError **err)
{
    g_autofree char *text = marker ? vg_marker_read(marker, err) : NULL;
    int64_t before = 0;

    if (!marker)
        return 0;
    if (!text)
        return -1;
    if (!g_str_has_prefix(text, "plans\n") || !vg_parse_int(text + strlen("plans\n"), &before))
        return vg_error(err, VG_E_INVALID, "marker: it is not from the list of plans");
    *ret_before_ns = before;
    return 0;
}

void
vg_handle_list_plans(struct vg_request *request)
{
    struct list_job job = {.before_ns = INT64_MAX, .limit = VG_LIMIT_DEFAULT};
    GError *err = NULL;

    if (vg_query_int(&request->query, "limit", 1, VG_LIMIT_MAX, &job.limit, &err) < 0 ||
        vg_query_length(&request->query, "marker", VG_MARKER_MAX, &err) < 0 ||
        handle_plans_read_marker(vg_query_get(&request->query, "marker"), &job.before_ns, &err) <
            0) {
        vg_answer_error(request, err);
        return;
    }
    request->job_data = g_memdup2(&job, sizeof(job));
    request->job_data_free = g_free;
    request->job = run_list_plans;
}
