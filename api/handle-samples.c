/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles a VM's samples over a period, from the store.
 */
#include "config.h"

#include <string.h>

#include "api/handle-history.h"
#include "api/route.h"
#include "base/clock.h"

#define ROWS_WANTED 1000
#define SOURCE_MAX  255

struct samples_job {
    struct vg_history_query query;
    char *id;
    char *key;  /* the key in the store */
    char *name; /* NULL if not measured now */
    char *source;
    GPtrArray *left_out; /* char *, files that could not be read */
};

static void
samples_job_free(void *data)
{
    struct samples_job *job = data;

    g_free(job->id);
    g_free(job->key);
    g_free(job->name);
    g_free(job->source);
    g_ptr_array_unref(job->left_out);
    g_free(job);
}

static GArray *
samples_read(const struct vg_backend *backend, struct samples_job *job, GError **err)
{
    GArray *rows = backend->measurement->samples(backend->data, &job->query, err);

    if (rows || !g_error_matches(*err, VG_ERROR, VG_E_NOT_FOUND))
        return rows;
    g_clear_error(err);
    /* The VM exists, but the store has nothing of it. */
    if (job->name)
        return vg_history_rows_new();
    /* The VM no longer exists, and the client may know only its name. */
    g_free(job->key);
    job->key = backend->measurement->find_vm(backend->data, job->id, err);
    if (!job->key)
        return NULL;
    job->query.vm = job->key;
    g_free(job->id);
    job->id = g_strdup(job->key);
    return backend->measurement->samples(backend->data, &job->query, err);
}

static void
samples_run(struct vg_request *request)
{
    struct samples_job *job = request->job_data;
    GError *err = NULL;

    job->query.deadline_ns = vg_clock_monotonic_ns() + VG_QUERY_LIMIT_NS;
    g_autoptr(GArray) rows = samples_read(request->backend, job, &err);
    g_autoptr(vg_view) view = request->backend->measurement->view(request->backend->data);
    const char *unread = job->left_out->len > 0 ? job->left_out->pdata[0] : NULL;
    if (!rows && unread && g_error_matches(err, VG_ERROR, VG_E_NOT_FOUND)) {
        vg_answer_problem(request, VG_E_NOT_FOUND, "%s; but %s", err->message, unread);
        g_error_free(err);
    } else if (!rows) {
        vg_answer_error(request, err);
    } else if (rows->len == 0 && !job->name) {
        vg_answer_problem(request, VG_E_NOT_FOUND, "no VM '%s' was measured in this period%s%s",
                          job->id, unread ? "; but " : "", unread ? unread : "");
    } else {
        json_object *object = vg_doc_samples(job->id, job->name, &job->query, rows);
        vg_doc_add_labels(view, object);
        vg_answer_json(request, 200, object);
    }
}

/* Chooses the finest step with at most ROWS_WANTED rows. */
static int64_t
samples_choose_step(int64_t period_ns, int64_t window_ns)
{
    static const int64_t steps_s[] = {1, 10, 60, 600, 3600, 86400};

    if (period_ns / MAX(window_ns, 1) < ROWS_WANTED)
        return 0;
    for (size_t i = 0; i < G_N_ELEMENTS(steps_s); i++) {
        if (steps_s[i] * VG_NS_PER_S >= window_ns &&
            period_ns / (steps_s[i] * VG_NS_PER_S) < ROWS_WANTED)
            return steps_s[i] * VG_NS_PER_S;
    }
    int64_t days = period_ns / (86400 * VG_NS_PER_S) / ROWS_WANTED + 1;
    return days * 86400 * VG_NS_PER_S;
}

static int
samples_read_step(const char *text, int64_t period_ns, int64_t window_ns, int64_t *ret,
                  GError **err)
{
    int64_t step = 0;

    if (!text) {
        *ret = samples_choose_step(period_ns, window_ns);
        return 0;
    }
    if (strcmp(text, "raw") != 0 && vg_parse_duration(text, &step, err) < 0) {
        g_prefix_error(err, "step: ");
        return -1;
    }
    if (strcmp(text, "raw") != 0 && (step < VG_NS_PER_S || step > VG_HISTORY_STEP_MAX_NS))
        return vg_error(err, VG_E_INVALID, "step: it must be from 1s to 366d");
    if (period_ns / MAX(step > 0 ? step : window_ns, 1) >= VG_HISTORY_ROWS_MAX)
        return vg_error(err, VG_E_INVALID,
                        "step: '%s' can produce more than %d rows for this period; use a longer "
                        "step",
                        text, VG_HISTORY_ROWS_MAX);
    *ret = step;
    return 0;
}

static int
samples_read_period(const struct vg_query *query, const vg_view *view, struct vg_history_query *ret,
                    GError **err)
{
    if (vg_period_read(query, view, ret, err) < 0)
        return -1;
    return samples_read_step(vg_query_get(query, "step"), ret->until_ns - ret->since_ns,
                             view->window_ns, &ret->step_ns, err);
}

void
vg_handle_samples(struct vg_request *request)
{
    g_autoptr(vg_view) view = request->backend->measurement->view(request->backend->data);
    struct vg_history_query query = {0};
    GError *err = NULL;
    const struct vg_snap_vm *vm = vg_view_name_vm(view, request->id, &err);

    /* A VM that is not measured now may still be in the store. */
    if (g_error_matches(err, VG_ERROR, VG_E_NOT_FOUND))
        g_clear_error(&err);
    if (err || samples_read_period(&request->query, view, &query, &err) < 0 ||
        vg_query_length(&request->query, "source", SOURCE_MAX, &err) < 0) {
        vg_answer_error(request, err);
        return;
    }
    struct samples_job *job = g_new0(struct samples_job, 1);
    job->left_out = g_ptr_array_new_with_free_func(g_free);
    query.left_out = job->left_out;
    if (vm)
        job->id = g_strdup(vg_view_vm_id(vm));
    else if (g_uuid_string_is_valid(request->id))
        job->id = g_ascii_strdown(request->id, -1);
    else
        job->id = g_strdup(request->id);
    job->name = g_strdup(vm ? vm->name : NULL);
    job->source = g_strdup(vg_query_get(&request->query, "source"));
    job->query = query;
    job->key = g_strdup(vg_history_key(view, vm, job->id));
    job->query.vm = job->key;
    job->query.source = job->source;
    request->job_data = job;
    request->job_data_free = samples_job_free;
    request->job = samples_run;
}
