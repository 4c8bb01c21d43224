/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles GPUs, their users, and the requests they processed, from the newest view.
 */
#include "config.h"

#include <string.h>

#include "api/route.h"

static vg_view *
newest_view(const struct vg_request *request)
{
    return request->backend->measurement->view(request->backend->data);
}

static void
answer(struct vg_request *request, const vg_view *view, json_object *take_object)
{
    char etag[VG_ETAG_LEN];

    vg_view_etag(view, etag);
    vg_answer_json(request, 200, take_object);
    vg_answer_etag(request, etag);
}

/* Returns whether {id} in the path is a GPU. If not, sets the answer. */
static bool
handle_gpu_find(struct vg_request *request, const vg_view *view)
{
    g_autoptr(GPtrArray) ids = vg_doc_gpu_ids(view);

    if (g_ptr_array_find_with_equal_func(ids, request->id, g_str_equal, NULL))
        return true;
    vg_answer_problem(request, VG_E_NOT_FOUND, "no GPU '%s' is known", request->id);
    return false;
}

void
vg_handle_gpus(struct vg_request *request)
{
    const struct vg_query *query = &request->query;
    int64_t limit = VG_LIMIT_DEFAULT;
    json_object *object = NULL;
    GError *err = NULL;

    if (query->n == 0) {
        vg_answer_view(request, newest_view(request), VG_BODY_GPUS);
        return;
    }
    g_autoptr(vg_view) view = newest_view(request);
    if (vg_query_int(query, "limit", 1, VG_LIMIT_MAX, &limit, &err) == 0 &&
        vg_query_length(query, "marker", VG_MARKER_MAX, &err) == 0)
        object = vg_doc_gpus(view, (size_t)limit, vg_query_get(query, "marker"), &err);
    if (object)
        answer(request, view, object);
    else
        vg_answer_error(request, err);
}

void
vg_handle_gpu(struct vg_request *request)
{
    g_autoptr(vg_view) view = newest_view(request);

    if (handle_gpu_find(request, view))
        answer(request, view, vg_doc_gpu(view, request->id));
}

void
vg_handle_vm_gpu(struct vg_request *request)
{
    g_autoptr(vg_view) view = newest_view(request);
    GError *err = NULL;
    const struct vg_snap_vm *vm = vg_view_name_vm(view, request->id, &err);

    if (vm)
        answer(request, view, vg_doc_vm_gpu(view, vm));
    else
        vg_answer_error(request, err);
}

static int
query_raw_time(const struct vg_query *query, const char *name, int64_t newest_ns, int64_t *ret,
               GError **err)
{
    const char *text = vg_query_get(query, name);

    if (!text || vg_parse_raw_time(text, newest_ns, ret, err) == 0)
        return 0;
    g_prefix_error(err, "%s: ", name);
    return -1;
}

static int
read_requests_query(const struct vg_query *query, const vg_view *view, struct vg_gpu_log_query *ret,
                    GError **err)
{
    int64_t newest_ns = view->newest.end_ns;
    int64_t limit = VG_LIMIT_DEFAULT;

    ret->since_ns = INT64_MIN;
    ret->until_ns = INT64_MAX;
    if (query_raw_time(query, "since", newest_ns, &ret->since_ns, err) < 0 ||
        query_raw_time(query, "until", newest_ns, &ret->until_ns, err) < 0 ||
        vg_query_int(query, "limit", 1, VG_LIMIT_MAX, &limit, err) < 0 ||
        vg_query_length(query, "vm", VG_SEGMENT_MAX, err) < 0)
        return -1;
    if (ret->since_ns > ret->until_ns)
        return vg_error(err, VG_E_INVALID, "since: must not be later than 'until'");
    ret->limit = (size_t)limit;
    ret->vm = vg_query_get(query, "vm");
    return 0;
}

void
vg_handle_gpu_requests(struct vg_request *request)
{
    g_autoptr(vg_view) view = newest_view(request);
    struct vg_gpu_log_query query = {.device = request->id};
    GError *err = NULL;

    if (read_requests_query(&request->query, view, &query, &err) < 0) {
        vg_answer_error(request, err);
        return;
    }
    if (!handle_gpu_find(request, view))
        return;
    json_object *object = vg_doc_gpu_requests(view, &query, &err);
    if (object)
        answer(request, view, object);
    else
        vg_answer_error(request, err);
}
