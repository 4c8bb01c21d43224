/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles automatic actions: reading and pausing them. All requests wait for etcd.
 */
#include "config.h"

#include "api/person.h"
#include "api/route.h"
#include "base/json.h"
#include "base/log.h"

#define VG_LOG_TAG "api"

static void
policy_add_leader(json_object *object, const vg_acting *acting)
{
    json_object *moves = json_object_new_array();

    for (guint i = 0; acting && i < acting->moves->len; i++) {
        json_object *move = vg_record_write(&vg_act_move_record, acting->moves->pdata[i]);
        json_object_object_del(move, "unseen_since_ns");
        vg_json_append(moves, move);
    }
    vg_json_add_string(object, "leader", acting ? acting->host : NULL);
    vg_json_add(object, "at_ns", acting ? json_object_new_int64(acting->at_ns) : NULL);
    vg_json_add_int64(object, "errors", acting ? acting->errors : 0);
    vg_json_add_int64(object, "error_budget", acting ? acting->budget : 0);
    vg_json_add_bool(object, "budget_spent", acting && acting->spent);
    vg_json_add_string(object, "plan_id", acting ? acting->plan_id : NULL);
    vg_json_add_string(object, "plan_hash", acting ? acting->plan_hash : NULL);
    vg_json_add(object, "moves", moves);
}

static json_object *
policy_to_json(const vg_acts_report *report)
{
    const vg_acting *acting = report->acting;
    json_object *object = json_object_new_object();
    const char *why = !report->has_cluster
                          ? "this host is not in a cluster ([cluster] etcd is not set)"
                      : !acting ? "no leader has reported yet"
                                : acting->why;
    g_autofree char *paused =
        report->pause ? g_strdup_printf("'%s' has paused automatic moves", report->pause->by)
                      : NULL;

    vg_json_add_string(object, "mode", vg_policy_mode_names[acting ? acting->mode : report->mode]);
    vg_json_add_bool(object, "acts", !why && !paused);
    vg_json_add_string(object, "why", paused ? paused : why);
    vg_json_add(object, "paused",
                report->pause ? vg_record_write(&vg_act_mark_record, report->pause) : NULL);
    policy_add_leader(object, acting);
    return object;
}

static void
policy_run_read(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    vg_acts_report report = {0};
    GError *err = NULL;

    if (backend->acts->read(backend->data, &report, &err) < 0)
        vg_answer_error(request, err);
    else
        vg_answer_json(request, 200, policy_to_json(&report));
    vg_acting_free(report.acting);
    vg_act_mark_free(report.pause);
}

void
vg_handle_policy(struct vg_request *request)
{
    request->lane = VG_LANE_ASK;
    request->job = policy_run_read;
}

/* A request to pause, or to resume. */
struct policy_switch {
    bool pause;
    char *by;
};

static void
policy_switch_free(void *data)
{
    struct policy_switch *wanted = data;

    g_free(wanted->by);
    g_free(wanted);
}

static void
policy_run_switch(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    const struct policy_switch *wanted = request->job_data;
    GError *err = NULL;

    request->object = g_strdup(wanted->pause ? "pause" : "resume");
    if (backend->acts->set_paused(backend->data, wanted->pause, wanted->by, &err) < 0)
        vg_answer_error(request, err);
    else
        policy_run_read(request);
}

static void
policy_handle_switch(struct vg_request *request, bool pause)
{
    GError *err = NULL;
    char *by = vg_person_settle(request, NULL, &err);

    if (!by) {
        vg_answer_error(request, err);
        return;
    }
    struct policy_switch *wanted = g_new0(struct policy_switch, 1);
    *wanted = (struct policy_switch){pause, by};
    vg_log_notice("write accepted by=\"%s\" from=\"%s\" route=\"%s %s\" request=%s",
                  request->identity.name, request->origin, request->method, request->route->path,
                  request->request_id);
    request->job_data = wanted;
    request->job_data_free = policy_switch_free;
    request->lane = VG_LANE_ASK;
    request->job = policy_run_switch;
}

void
vg_handle_policy_pause(struct vg_request *request)
{
    policy_handle_switch(request, true);
}

void
vg_handle_policy_resume(struct vg_request *request)
{
    policy_handle_switch(request, false);
}
