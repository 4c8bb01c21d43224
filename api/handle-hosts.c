/* SPDX-License-Identifier: Apache-2.0
 *
 * Handles all hosts that this vgpud knows: a list, and the cluster as a whole.
 */
#include "config.h"

#include "api/route.h"
#include "base/clock.h"
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
    /* Clocks differ; nobody is seen in the future. */
    vg_json_add(object, "age_ns",
                info->seen_ns > 0 ? json_object_new_int64(MAX(now_ns - info->seen_ns, 0)) : NULL);
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

/* Adds what all hosts have together. */
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
    hosts_add_sums(object, hosts);
    g_free(status.name);
    g_free(status.endpoint);
    g_free(status.reason);
    vg_answer_json(request, 200, object);
}
