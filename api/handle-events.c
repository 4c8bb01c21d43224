/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles past events, from the journal. api/sse.c handles current ones.
 */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "api/handle-history.h"
#include "api/route.h"
#include "api/server.h"
#include "base/error.h"
#include "base/json.h"

struct events_job {
    struct vg_happening_query query;
    char *types;
    char *after_boot;
};

static void
events_job_free(void *data)
{
    struct events_job *job = data;

    g_free(job->types);
    g_free(job->after_boot);
    g_free(job);
}

/* Creates "BOOT-SEQ". The caller frees it. */
static char *
events_id(const char *boot, uint64_t seq)
{
    return g_strdup_printf("%s-%" PRIu64, boot, seq);
}

static json_object *
events_to_json(const struct vg_happening *event)
{
    json_object *object = json_tokener_parse(event->text);
    g_autofree char *id = events_id(event->boot, event->seq);

    if (!json_object_is_type(object, json_type_object)) {
        json_object_put(object);
        object = json_object_new_object();
        vg_json_add_int64(object, "seq", (int64_t)event->seq);
        vg_json_add_string(object, "type", event->type);
    }
    vg_json_add_string(object, "event_id", id);
    return object;
}

static void
events_run(struct vg_request *request)
{
    struct events_job *job = request->job_data;
    vg_api *api = request->api;
    size_t limit = job->query.limit;
    GError *err = NULL;

    /* A client that continues after `at` receives the later events. */
    job->query.upto_boot = api->boot_id;
    job->query.upto_seq = vg_event_log_newest(api->events);
    job->query.limit = limit + 1;
    g_autoptr(GPtrArray) events =
        request->backend->measurement->list_events(request->backend->data, &job->query, &err);
    if (!events) {
        vg_answer_error(request, err);
        return;
    }
    json_object *object = json_object_new_object();
    json_object *items = json_object_new_array();
    g_autofree char *at = events_id(api->boot_id, job->query.upto_seq);
    g_autofree char *next = NULL;
    for (guint i = 0; i < events->len && i < limit; i++)
        vg_json_append(items, events_to_json(events->pdata[i]));
    if (events->len > limit) {
        const struct vg_happening *last = events->pdata[limit - 1];
        next = events_id(last->boot, last->seq);
    }
    vg_json_add_string(object, "boot_id", api->boot_id);
    vg_json_add_string(object, "at", at);
    vg_json_add(object, "items", items);
    vg_json_add_string(object, "next", next);
    vg_answer_json(request, 200, object);
}

static int
events_read_from(const char *text, struct events_job *job, GError **err)
{
    const char *dash = text ? strrchr(text, '-') : NULL;

    if (!text)
        return 0;
    /* The boot id is irrelevant here. */
    if (vg_parse_event_id(text, "", &job->query.after_seq) == VG_EVENT_ID_INVALID)
        return vg_error(err, VG_E_INVALID, "from: '%s' is not an event id", text);
    g_autofree char *boot = g_strndup(text, (size_t)(dash - text));
    job->after_boot = g_ascii_strdown(boot, -1);
    job->query.after_boot = job->after_boot;
    job->query.after_seq = g_ascii_strtoull(dash + 1, NULL, 10);
    return 0;
}

static int
events_read(const struct vg_request *request, struct events_job *job, GError **err)
{
    const struct vg_query *query = &request->query;
    g_autoptr(vg_view) view = request->backend->measurement->view(request->backend->data);
    struct vg_history_query period = {.until_ns = INT64_MAX};
    int64_t limit = VG_LIMIT_DEFAULT;

    if (vg_query_int(query, "limit", 1, VG_LIMIT_MAX, &limit, err) < 0 ||
        events_read_from(vg_query_get(query, "from"), job, err) < 0)
        return -1;
    if (vg_period_is_asked(query) && vg_period_read(query, view, &period, err) < 0)
        return -1;
    job->query.since_ns = vg_query_get(query, "since") ? period.since_ns : 0;
    job->query.until_ns = vg_query_get(query, "until") ? period.until_ns : INT64_MAX;
    job->query.limit = (size_t)limit;
    job->types = g_strdup(vg_query_get(query, "types"));
    job->query.types = job->types;
    return 0;
}

void
vg_handle_past_events(struct vg_request *request)
{
    struct events_job *job = g_new0(struct events_job, 1);
    GError *err = NULL;

    if (events_read(request, job, &err) < 0) {
        events_job_free(job);
        vg_answer_error(request, err);
        return;
    }
    request->job_data = job;
    request->job_data_free = events_job_free;
    request->job = events_run;
}
