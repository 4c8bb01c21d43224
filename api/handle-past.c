/* SPDX-License-Identifier: Apache-2.0
 *
 * The lists of VMs and of preemptions of a time that is past: from the store.
 */
#include "config.h"

#include "api/handle-past.h"

#include "base/clock.h"

#define UNTIL_DEFAULT "now"

/* How long before until, where since is not given. */
#define PERIOD_DEFAULT_NS (3600 * VG_NS_PER_S)

/* For reading the store; half of what the watchdog of threads allows by default. */
#define QUERY_LIMIT_NS (10 * VG_NS_PER_S)

struct past_job {
    struct vg_history_query query;
    bool preemptions;
    enum vg_vm_sort sort;
    size_t limit;
    char *vm;
    char *marker;
    GPtrArray *left_out; /* char * */
};

bool
vg_past_is_asked(const struct vg_query *query)
{
    return vg_query_get(query, "since") || vg_query_get(query, "until");
}

static int64_t
past_now(const vg_view *view)
{
    if (view->replay && view->newest.end_ns > view->newest.begin_ns)
        return view->newest.end_ns + view->clock_offset_ns;
    return vg_clock_realtime_ns();
}

int
vg_past_read_period(const struct vg_query *query, const vg_view *view, struct vg_history_query *ret,
                    GError **err)
{
    const char *since = vg_query_get(query, "since");
    const char *until = vg_query_get(query, "until");
    int64_t now = past_now(view);

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
                        until ? until : "now where it is not given");
    return 0;
}

static void
past_job_free(void *data)
{
    struct past_job *job = data;

    g_free(job->vm);
    g_free(job->marker);
    g_ptr_array_unref(job->left_out);
    g_free(job);
}

static void
past_run(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    struct past_job *job = request->job_data;
    json_object *object = NULL;
    GError *err = NULL;

    job->query.deadline_ns = vg_clock_monotonic_ns() + QUERY_LIMIT_NS;
    g_autoptr(vg_history_host) host = backend->past(backend->data, &job->query, &err);
    if (host && job->preemptions)
        object = vg_doc_past_preemptions(&job->query, host, job->vm, job->limit, job->marker, &err);
    else if (host)
        object = vg_doc_past_vms(&job->query, host, job->sort, job->limit, job->marker, &err);
    if (object)
        vg_answer_json(request, 200, object);
    else
        vg_answer_error(request, err);
}

void
vg_past_begin(struct vg_request *request, bool preemptions, enum vg_vm_sort sort, size_t limit)
{
    g_autoptr(vg_view) view = request->backend->view(request->backend->data);
    struct vg_history_query query = {0};
    GError *err = NULL;

    if (vg_past_read_period(&request->query, view, &query, &err) < 0) {
        vg_answer_error(request, err);
        return;
    }
    struct past_job *job = g_new0(struct past_job, 1);
    job->query = query;
    job->preemptions = preemptions;
    job->sort = sort;
    job->limit = limit;
    job->vm = g_strdup(vg_query_get(&request->query, "vm"));
    job->marker = g_strdup(vg_query_get(&request->query, "marker"));
    job->left_out = g_ptr_array_new_with_free_func(g_free);
    job->query.left_out = job->left_out;
    request->job_data = job;
    request->job_data_free = past_job_free;
    request->job = past_run;
}
