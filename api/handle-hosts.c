/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles all hosts that this vgpud knows: as a list, and as a cluster.
 */
#include "config.h"

#include <string.h>

#include "api/route.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "model/host-info.h"

static json_object *
hosts_write(const struct vg_host_info *info, int64_t now_ns)
{
    json_object *object = vg_record_write(&vg_host_card_record, &info->card);
    const bool has_summary = info->summary.at_ns > 0;

    vg_json_add_string(object, "state", vg_host_presence_names[info->state]);
    vg_json_add_string(object, "reason", info->reason);
    vg_json_add_bool(object, "self", info->self);
    vg_json_add_int64(object, "seen_ns", info->seen_ns);
    /* The clocks may differ, but no age is negative. */
    vg_json_add(object, "age_ns",
                info->seen_ns > 0 ? json_object_new_int64(MAX(now_ns - info->seen_ns, 0)) : NULL);
    vg_json_add_bool(object, "maintenance", info->maintenance);
    vg_json_add(object, "summary",
                has_summary ? vg_record_write(&vg_host_summary_record, &info->summary) : NULL);
    return object;
}

void
vg_handle_hosts(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    g_autoptr(GPtrArray) hosts = backend->measurement->list_hosts(backend->data);
    json_object *object = json_object_new_object(), *items = json_object_new_array();
    const int64_t now_ns = vg_clock_realtime_ns();

    for (guint i = 0; i < hosts->len; i++)
        vg_json_append(items, hosts_write(hosts->pdata[i], now_ns));
    vg_json_add(object, "items", items);
    vg_answer_json(request, 200, object);
}

static int
hosts_compare_lost(const void *a, const void *b)
{
    const struct vg_cluster_vm *x = *(struct vg_cluster_vm *const *)a;
    const struct vg_cluster_vm *y = *(struct vg_cluster_vm *const *)b;

    if (x->lost != y->lost)
        return x->lost < y->lost ? 1 : -1;
    const int order = strcmp(x->host, y->host);
    return order != 0 ? order : strcmp(x->name, y->name);
}

/* Reads the parameter `class`, or sets -1 for any. */
static int
hosts_read_class(const struct vg_query *query, int *ret, GError **err)
{
    const char *text = vg_query_get(query, "class");

    *ret = -1;
    if (!text)
        return 0;
    for (int i = 0; vg_vm_class_names[i]; i++) {
        if (strcmp(vg_vm_class_names[i], text) == 0)
            *ret = i;
    }
    if (*ret >= 0)
        return 0;
    return vg_error(err, VG_E_INVALID,
                    "class: '%s' is not one of idle, cpu, gpu, mixed, "
                    "alternating",
                    text);
}

void
vg_handle_cluster_vms(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    const struct vg_query *query = &request->query;
    int64_t limit = VG_LIMIT_MAX, total = 0;
    int vm_class = -1;
    GError *err = NULL;

    if (vg_query_int(query, "limit", 1, VG_LIMIT_MAX, &limit, &err) < 0 ||
        vg_query_length(query, "host", VG_SEGMENT_MAX, &err) < 0 ||
        hosts_read_class(query, &vm_class, &err) < 0) {
        vg_answer_error(request, err);
        return;
    }
    g_autoptr(GPtrArray) vms =
        backend->measurement->list_cluster_vms(backend->data, vg_query_get(query, "host"));
    json_object *object = json_object_new_object(), *items = json_object_new_array();
    g_ptr_array_sort(vms, hosts_compare_lost);
    for (guint i = 0; i < vms->len; i++) {
        const struct vg_cluster_vm *vm = vms->pdata[i];
        if (vm_class >= 0 && (int)vm->vm_class != vm_class)
            continue;
        if (total++ < limit)
            vg_json_append(items, vg_record_write(&vg_cluster_vm_record, vm));
    }
    vg_json_add(object, "items", items);
    vg_json_add_int64(object, "total", total);
    vg_answer_json(request, 200, object);
}

/* Adds the sums over all hosts. */
static void
hosts_add_sums(json_object *object, const GPtrArray *hosts)
{
    struct vg_host_summary sum = {0};
    int64_t states[VG_HOST_PRESENCE_MAX] = {0};
    json_object *counts = json_object_new_object();

    for (guint i = 0; i < hosts->len; i++) {
        const struct vg_host_info *info = hosts->pdata[i];
        states[info->state]++;
        sum.cpus += info->summary.cpus;
        sum.wanted += info->summary.wanted;
        sum.lost += info->summary.lost;
        sum.vms += info->summary.vms;
        sum.gpus += info->summary.gpus;
        sum.gpus_free += info->summary.gpus_free;
    }
    for (int i = 0; i < VG_HOST_PRESENCE_MAX; i++)
        vg_json_add_int64(counts, vg_host_presence_names[i], states[i]);
    vg_json_add(object, "hosts", counts);
    vg_json_add_int64(object, "vms", sum.vms);
    vg_json_add_int64(object, "cpus", sum.cpus);
    vg_json_add_double(object, "wanted", sum.wanted);
    vg_json_add_double(object, "lost", sum.lost);
    vg_json_add_int64(object, "gpus", sum.gpus);
    vg_json_add_int64(object, "gpus_free", sum.gpus_free);
}

void
vg_handle_cluster(struct vg_request *request)
{
    const struct vg_backend *backend = request->backend;
    g_autoptr(GPtrArray) hosts = backend->measurement->list_hosts(backend->data);
    json_object *object = json_object_new_object(), *etcd = NULL;
    struct vg_cluster_status status = {0};

    if (backend->measurement->read_cluster(backend->data, &status)) {
        etcd = json_object_new_object();
        vg_json_add_string(etcd, "endpoint", status.endpoint);
        vg_json_add_bool(etcd, "known", status.known);
        vg_json_add_string(etcd, "reason", status.reason);
        vg_json_add_int64(etcd, "answered_ns", status.answered_ns);
        vg_json_add_int64(etcd, "revision", status.revision);
        vg_json_add_int64(etcd, "puts", status.puts);
    }
    vg_json_add_string(object, "name", status.name);
    vg_json_add(object, "etcd", etcd);
    vg_json_add(object, "leader",
                status.leader ? vg_record_write(&vg_cluster_leader_record, status.leader) : NULL);
    vg_json_add(object, "proposal",
                status.proposal ? vg_record_write(&vg_proposal_record, status.proposal) : NULL);
    hosts_add_sums(object, hosts);
    g_free(status.name);
    g_free(status.endpoint);
    g_free(status.reason);
    vg_cluster_leader_free(status.leader);
    vg_proposal_free(status.proposal);
    vg_answer_json(request, 200, object);
}
