/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles the host's past in steps, from the store and from events in the journal.
 */
#include "config.h"

#include <string.h>

#include "api/handle-history.h"
#include "api/route.h"
#include "base/clock.h"

#define STEPS_WANTED      48
#define STEPS_SOURCE_MAX  255
#define STEPS_SINCE_NS    (24 * 3600 * VG_NS_PER_S)
#define STEPS_DAY_NS      (86400 * VG_NS_PER_S)
#define STEPS_STEP_MIN_NS (10 * VG_NS_PER_S)

struct steps_job {
    struct vg_history_query query;
    char *source;
    GPtrArray *left_out; /* char * */
};

static void
steps_job_free(void *data)
{
    struct steps_job *job = data;

    g_free(job->source);
    g_ptr_array_unref(job->left_out);
    g_free(job);
}

/* For verdicts, a peer needs the host's figures but not the names of its programs. */
static void
steps_hide_programs(GArray *steps)
{
    for (guint i = 0; i < steps->len; i++)
        g_clear_pointer(&g_array_index(steps, struct vg_history_step, i).programs, g_array_unref);
}

static void
steps_run(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    struct steps_job *job = request->job_data;
    const struct vg_happening_query events = {
        .since_ns = job->query.since_ns,
        .until_ns = job->query.until_ns,
        .types = VG_HAPPENING_ALERT "," VG_HAPPENING_MEASURING,
        .limit = SIZE_MAX / 2,
    };
    g_autoptr(GError) error = NULL;
    GError *err = NULL;

    job->query.deadline_ns = vg_clock_monotonic_ns() + VG_QUERY_LIMIT_NS;
    g_autoptr(GArray) steps = backend->measurement->steps(backend->data, &job->query, &err);
    if (!steps) {
        vg_answer_error(request, err);
        return;
    }
    const bool is_peer = request->identity.role == VG_ROLE_PEER;
    if (is_peer)
        steps_hide_programs(steps);
    g_autoptr(GPtrArray) happened =
        is_peer ? NULL : backend->measurement->list_events(backend->data, &events, &error);
    if (!happened && !is_peer)
        g_ptr_array_add(job->left_out,
                        g_strdup_printf("alerts, and events that affected the measurement: %s",
                                        error->message));
    g_autoptr(vg_view) view = backend->measurement->view(backend->data);
    vg_answer_json(request, 200,
                   vg_doc_host_history(&job->query, steps, happened, vg_history_now(view)));
}

/* Chooses the finest step with at most STEPS_WANTED steps. */
static int64_t
steps_choose(int64_t period_ns)
{
    static const int64_t minutes[] = {1, 5, 10, 60, 360};

    for (size_t i = 0; i < G_N_ELEMENTS(minutes); i++) {
        const int64_t step_ns = minutes[i] * 60 * VG_NS_PER_S;
        if (period_ns / step_ns <= STEPS_WANTED)
            return step_ns;
    }
    return (period_ns / STEPS_DAY_NS / STEPS_WANTED + 1) * STEPS_DAY_NS;
}

static int
steps_read_step(const char *text, int64_t period_ns, int64_t *ret, GError **err)
{
    if (!text) {
        *ret = steps_choose(period_ns);
        return 0;
    }
    if (vg_parse_duration(text, ret, err) < 0) {
        g_prefix_error(err, "step: ");
        return -1;
    }
    if (*ret < STEPS_STEP_MIN_NS || *ret > VG_HISTORY_STEP_MAX_NS)
        return vg_error(err, VG_E_INVALID, "step: it must be from 10s to 366d");
    if (period_ns / *ret >= VG_HISTORY_ROWS_MAX)
        return vg_error(err, VG_E_INVALID,
                        "step: '%s' can produce more than %d steps for this period; use a longer "
                        "step",
                        text, VG_HISTORY_ROWS_MAX);
    return 0;
}

/* Extends the period to whole steps that include since and until. */
static void
steps_align(struct vg_history_query *query)
{
    const int64_t step = query->step_ns;
    int64_t since_rest = query->since_ns % step, until_rest = query->until_ns % step;

    query->since_ns -= since_rest < 0 ? since_rest + step : since_rest;
    if (until_rest != 0)
        query->until_ns += step - (until_rest < 0 ? until_rest + step : until_rest);
}

static int
steps_read(const struct vg_query *query, const vg_view *view, struct vg_history_query *ret,
           GError **err)
{
    if (vg_period_read(query, view, ret, err) < 0)
        return -1;
    if (!vg_query_get(query, "since"))
        ret->since_ns = ret->until_ns - STEPS_SINCE_NS;
    if (steps_read_step(vg_query_get(query, "step"), ret->until_ns - ret->since_ns, &ret->step_ns,
                        err) < 0)
        return -1;
    steps_align(ret);
    return vg_query_length(query, "source", STEPS_SOURCE_MAX, err);
}

void
vg_handle_host_history(struct vg_request *request)
{
    g_autoptr(vg_view) view = request->backend->measurement->view(request->backend->data);
    struct vg_history_query query = {0};
    GError *err = NULL;

    if (steps_read(&request->query, view, &query, &err) < 0) {
        vg_answer_error(request, err);
        return;
    }
    struct steps_job *job = g_new0(struct steps_job, 1);
    job->query = query;
    job->source = g_strdup(vg_query_get(&request->query, "source"));
    job->query.source = job->source;
    job->left_out = g_ptr_array_new_with_free_func(g_free);
    job->query.left_out = job->left_out;
    request->job_data = job;
    request->job_data_free = steps_job_free;
    request->job = steps_run;
}
