/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "api/handle-history.h"

#include "base/clock.h"

#define UNTIL_DEFAULT "now"

/* The default period before `until` if `since` is missing. */
#define PERIOD_DEFAULT_NS (3600 * VG_NS_PER_S)

struct history_job {
    struct vg_history_query query;
    bool preemptions;
    enum vg_vm_sort sort;
    size_t limit;
    char *vm;
    char *marker;
    GPtrArray *left_out; /* char * */
};

bool
vg_period_is_asked(const struct vg_query *query)
{
    return vg_query_get(query, "since") || vg_query_get(query, "until");
}

int64_t
vg_history_now(const vg_view *view)
{
    if (view->replay && view->newest.end_ns > view->newest.begin_ns)
        return view->newest.end_ns + view->clock_offset_ns;
    return vg_clock_realtime_ns();
}

int
vg_period_read(const struct vg_query *query, const vg_view *view, struct vg_history_query *ret,
               GError **err)
{
    const char *since = vg_query_get(query, "since");
    const char *until = vg_query_get(query, "until");
    int64_t now = vg_history_now(view);

    if (vg_parse_time(until ? until : UNTIL_DEFAULT, now, &ret->until_ns, err) < 0) {
        g_prefix_error(err, "until: ");
        return -1;
    }
    ret->since_ns = ret->until_ns - PERIOD_DEFAULT_NS;
    if (since && vg_parse_time(since, now, &ret->since_ns, err) < 0) {
        g_prefix_error(err, "since: ");
        return -1;
    }
    if (ret->since_ns >= ret->until_ns)
        return vg_error(err, VG_E_INVALID, "since: it must be before until, which is %s",
                        until ? until : "now by default");
    return 0;
}

static void
history_job_free(void *data)
{
    struct history_job *job = data;

    g_free(job->vm);
    g_free(job->marker);
    g_ptr_array_unref(job->left_out);
    g_free(job);
}

static void
history_run(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    struct history_job *job = request->job_data;
    json_object *object = NULL;
    GError *err = NULL;

    job->query.deadline_ns = vg_clock_monotonic_ns() + VG_QUERY_LIMIT_NS;
    g_autoptr(vg_history_host) host = backend->measurement->past(backend->data, &job->query, &err);
    g_autoptr(vg_view) view = backend->measurement->view(backend->data);
    if (host && job->preemptions)
        object =
            vg_doc_history_preemptions(&job->query, host, job->vm, job->limit, job->marker, &err);
    else if (host)
        object =
            vg_doc_history_vms(view, &job->query, host, job->sort, job->limit, job->marker, &err);
    if (!object) {
        vg_answer_error(request, err);
        return;
    }
    vg_doc_add_labels(view, object);
    vg_answer_json(request, 200, object);
}

const char *
vg_history_key(const vg_view *view, const struct vg_snap_vm *vm, const char *id)
{
    const struct vg_vm_sample *sample = vm ? vg_view_sample(&view->totals, vm) : NULL;

    return sample ? sample->uuid[0] ? sample->uuid : sample->name : id;
}

void
vg_handle_history(struct vg_request *request, bool preemptions, enum vg_vm_sort sort, size_t limit)
{
    g_autoptr(vg_view) view = request->backend->measurement->view(request->backend->data);
    struct vg_history_query query = {0};
    GError *err = NULL;

    const char *name = vg_query_get(&request->query, "vm");
    const struct vg_snap_vm *vm = name ? vg_view_name_vm(view, name, &err) : NULL;
    /* A VM that is not measured now may still be in the store. */
    if (g_error_matches(err, VG_ERROR, VG_E_NOT_FOUND))
        g_clear_error(&err);
    if (err || vg_period_read(&request->query, view, &query, &err) < 0) {
        vg_answer_error(request, err);
        return;
    }
    struct history_job *job = g_new0(struct history_job, 1);
    job->query = query;
    job->preemptions = preemptions;
    job->sort = sort;
    job->limit = limit;
    job->vm = g_strdup(vg_history_key(view, vm, name));
    job->marker = g_strdup(vg_query_get(&request->query, "marker"));
    job->left_out = g_ptr_array_new_with_free_func(g_free);
    job->query.left_out = job->left_out;
    request->job_data = job;
    request->job_data_free = history_job_free;
    request->job = history_run;
}
