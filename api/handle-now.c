/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles this host, its VMs and their preemptions, from the newest view.
 */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "api/handle-history.h"
#include "api/route.h"
#include "base/clock.h"
#include "base/json.h"

static vg_view *
newest_view(const struct vg_request *request)
{
    return request->backend->measurement->view(request->backend->data);
}

/* The ETag covers the states of parts, alerts and the configuration, which change without a new
 * window. */
void
vg_handle_host(struct vg_request *request)
{
    g_autoptr(vg_view) view = newest_view(request);
    g_autoptr(GPtrArray) parts = request->backend->measurement->status(request->backend->data);
    struct vg_daemon_stats stats = {0};
    char etag[VG_ETAG_LEN];

    request->backend->measurement->stats(request->backend->data, &stats);
    g_autoptr(json_object) states = vg_doc_parts(parts);
    g_autoptr(json_object) setup = vg_doc_setup(&stats);
    g_autoptr(json_object) alerts = vg_doc_alerts(view, request->backend);
    g_autofree char *text = vg_json_to_text(states, false);
    g_autofree char *alerts_text = vg_json_to_text(alerts, false);
    g_autofree char *setup_text = vg_json_to_text(setup, false);
    g_snprintf(etag, sizeof(etag), "\"%s-%" PRIu64 ".%08x\"", view->boot_id, view->seq,
               (g_str_hash(text) * 31 + g_str_hash(setup_text)) * 31 + g_str_hash(alerts_text));
    vg_answer_json(request, 200, vg_doc_host(view, parts, &stats, json_object_get(alerts)));
    vg_answer_etag(request, etag);
}

void
vg_handle_host_cpus(struct vg_request *request)
{
    g_autoptr(vg_view) view = newest_view(request);
    char etag[VG_ETAG_LEN];

    vg_view_etag(view, etag);
    vg_answer_json(request, 200, vg_doc_host_cpus(view));
    vg_answer_etag(request, etag);
}

/* Reads a parameter with a value from a NULL-terminated table. If it is missing, *ret is
 * unchanged. */
static int
query_word(const struct vg_query *query, const char *name, const char *const *words, int *ret,
           GError **err)
{
    const char *text = vg_query_get(query, name);
    g_autofree char *known = NULL;

    if (!text)
        return 0;
    for (int i = 0; words[i]; i++) {
        if (strcmp(words[i], text) == 0) {
            *ret = i;
            return 0;
        }
    }
    known = g_strjoinv(", ", (char **)words);
    return vg_error(err, VG_E_INVALID, "%s: '%s' is not one of %s", name, text, known);
}

void
vg_handle_vms(struct vg_request *request)
{
    static const char *const sorts[] = {"name", "lost", "cpu", "gpu", NULL};
    const struct vg_query *query = &request->query;
    int sort = VG_VM_SORT_NAME;
    struct vg_vm_filter filter = vg_vm_filter_none;
    int64_t limit = VG_LIMIT_DEFAULT;
    char etag[VG_ETAG_LEN];
    GError *err = NULL;

    if (query->n == 0) {
        vg_answer_view(request, newest_view(request), VG_BODY_VMS);
        return;
    }
    bool past = vg_period_is_asked(query);
    if (past)
        sort = VG_VM_SORT_LOST;
    g_autoptr(vg_view) view = newest_view(request);
    json_object *object = NULL;
    if (query_word(query, "sort", sorts, &sort, &err) == 0 &&
        query_word(query, "class", vg_vm_class_names, &filter.vm_class, &err) == 0 &&
        vg_query_length(query, "project", VG_SEGMENT_MAX, &err) == 0 &&
        vg_query_length(query, "name", VG_SEGMENT_MAX, &err) == 0 &&
        vg_query_int(query, "limit", 1, VG_LIMIT_MAX, &limit, &err) == 0 &&
        vg_query_length(query, "marker", VG_MARKER_MAX, &err) == 0) {
        filter.project = vg_query_get(query, "project");
        filter.name = vg_query_get(query, "name");
        if (past && (filter.vm_class >= 0 || filter.project || filter.name))
            vg_error(
                &err, VG_E_INVALID,
                "class, project, name: these apply to the present only; leave out since and until");
    }
    if (!err && past) {
        vg_handle_history(request, false, (enum vg_vm_sort)sort, (size_t)limit);
        return;
    }
    if (!err)
        object = vg_doc_vms(view, (enum vg_vm_sort)sort, &filter, (size_t)limit,
                            vg_query_get(query, "marker"), &err);
    if (err) {
        vg_answer_error(request, err);
        return;
    }
    vg_view_etag(view, etag);
    vg_answer_json(request, 200, object);
    vg_answer_etag(request, etag);
}

void
vg_handle_vm(struct vg_request *request)
{
    g_autoptr(vg_view) view = newest_view(request);
    GError *err = NULL;
    const struct vg_snap_vm *vm = vg_view_name_vm(view, request->id, &err);
    char etag[VG_ETAG_LEN];

    if (!vm) {
        vg_answer_error(request, err);
        return;
    }
    vg_view_etag(view, etag);
    vg_answer_json(request, 200, vg_doc_vm(view, vm));
    vg_answer_etag(request, etag);
}

void
vg_handle_preemptions(struct vg_request *request)
{
    const char *id = vg_query_get(&request->query, "vm");
    const struct vg_snap_vm *vm = NULL;
    int64_t limit = VG_LIMIT_DEFAULT;
    char etag[VG_ETAG_LEN];
    GError *err = NULL;

    if (request->query.n == 0) {
        vg_answer_view(request, newest_view(request), VG_BODY_PREEMPTIONS);
        return;
    }
    g_autoptr(vg_view) view = newest_view(request);
    if (vg_query_int(&request->query, "limit", 1, VG_LIMIT_MAX, &limit, &err) < 0 ||
        vg_query_length(&request->query, "vm", VG_SEGMENT_MAX, &err) < 0 ||
        vg_query_length(&request->query, "marker", VG_MARKER_MAX, &err) < 0) {
        vg_answer_error(request, err);
        return;
    }
    if (vg_period_is_asked(&request->query)) {
        vg_handle_history(request, true, VG_VM_SORT_LOST, (size_t)limit);
        return;
    }
    if (id)
        vm = vg_view_name_vm(view, id, &err);
    if (err) {
        g_prefix_error(&err, "vm: ");
        vg_answer_error(request, err);
        return;
    }
    json_object *object =
        vg_doc_preemptions(view, vm, (size_t)limit, vg_query_get(&request->query, "marker"), &err);
    if (!object) {
        vg_answer_error(request, err);
        return;
    }
    vg_view_etag(view, etag);
    vg_answer_json(request, 200, object);
    vg_answer_etag(request, etag);
}
