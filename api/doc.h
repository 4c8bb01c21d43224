/* SPDX-License-Identifier: Apache-2.0
 *
 * Documents made from a view. The callers release the objects with json_object_put(). Any thread.
 */
#ifndef VG_API_DOC_H
#define VG_API_DOC_H

#include <stdbool.h>
#include <stddef.h>

#include <glib.h>
#include <json-c/json.h>

#include "api/backend.h"
#include "model/gpu-largest.h"

enum vg_vm_sort { VG_VM_SORT_NAME, VG_VM_SORT_LOST, VG_VM_SORT_CPU, VG_VM_SORT_GPU };

/* Returns the text of a document. It is written on the first call and valid as long as the view. */
const char *vg_view_text(vg_view *view, enum vg_view_body body, size_t *ret_size);

json_object *vg_doc_host(const vg_view *view, const GPtrArray *parts,
                         const struct vg_daemon_stats *stats, json_object *take_alerts);
json_object *vg_doc_parts(const GPtrArray *parts);
/* Return the documents of the configuration and of one VM. */
json_object *vg_doc_setup(const struct vg_daemon_stats *stats);
json_object *vg_doc_vm(const vg_view *view, const struct vg_snap_vm *vm);

/* Selection of VMs for a list. In patterns, '*' matches any characters, and '?' matches one. */
struct vg_vm_filter {
    int vm_class;        /* -1 for any class */
    const char *project; /* name or id of an OpenStack project; NULL matches every VM */
    const char *name;    /* pattern for the name in libvirt or OpenStack; NULL for any name */
};

extern const struct vg_vm_filter vg_vm_filter_none; /* selects all VMs */

bool vg_vm_filter_takes(const struct vg_vm_filter *filter, const struct vg_snap_vm *vm,
                        const struct vg_inv_vm *domain); /* domain: NULL if unknown */

/* Returns {"items","next"}. marker: where to continue; NULL for the first page. Returns NULL with
 * VG_E_INVALID if the marker belongs to another order. */
json_object *vg_doc_vms(const vg_view *view, enum vg_vm_sort sort,
                        const struct vg_vm_filter *filter, size_t limit, const char *marker,
                        GError **err);

/* Returns a list of preemptions. victim: NULL for all. */
json_object *vg_doc_preemptions(const vg_view *view, const struct vg_snap_vm *victim, size_t limit,
                                const char *marker, GError **err);

/* An item's position in an order: by value, largest first, then by name, then by the id, which is
 * unique. Everything is borrowed. */
struct vg_doc_place {
    double value;
    const char *name;
    const char *id;
    const void *item; /* NULL for the position of a marker */
};
int vg_doc_compare_places(const void *a, const void *b);

/* The number of the preemptions' order in markers, in addition to enum vg_vm_sort. */
#define VG_DOC_SORT_LOSSES 100

/* Returns {"items","next"} of sorted positions (struct vg_doc_place). sort: number of the order,
 * for the marker. Returns NULL with VG_E_INVALID if the marker belongs to another order. */
json_object *vg_doc_page(const void *data, const GArray *places, int sort, size_t limit,
                         const char *marker,
                         json_object *(*to_json)(const void *data, const void *item), GError **err);

/* Adds "rates": in cores and per second. */
void vg_doc_add_rates(json_object *object, double run_share, double preempt_share,
                      double wake_wait_share, double preemptions_per_s);

/* Return documents about the past from the store: figures of the host and a page of its VMs, or a
 * page of preemptions. view: the newest; victim: key or name, NULL for all. Fail with
 * VG_E_NOT_FOUND. */
json_object *vg_doc_history_vms(const vg_view *view, const struct vg_history_query *query,
                                const vg_history_host *host, enum vg_vm_sort sort, size_t limit,
                                const char *marker, GError **err);
json_object *vg_doc_history_preemptions(const struct vg_history_query *query,
                                        const vg_history_host *host, const char *victim,
                                        size_t limit, const char *marker, GError **err);

/* Returns the document of a host's past. query: since and until are multiples of the step. steps:
 * struct vg_history_step; happened: alert events (struct vg_happening), or NULL if unknown. */
json_object *vg_doc_host_history(const struct vg_history_query *query, const GArray *steps,
                                 const GPtrArray *happened, int64_t now_ns);

/* Returns an array of programs by CPU time (struct vg_history_process); NULL counts as empty. */
json_object *vg_doc_history_programs(const GArray *programs);

/* Returns an array of losses (struct vg_history_loss). */
json_object *vg_doc_history_losses(const GArray *losses);

/* Returns the ids of GPUs in paths; char *. The caller unrefs the list. */
GPtrArray *vg_doc_gpu_ids(const vg_view *view);

/* Describes the largest profile with a free slot. */
json_object *vg_doc_gpu_largest(const vg_view *view, const struct vg_gpu_largest *largest);

/* Returns the document of one of these GPUs. */
json_object *vg_doc_gpu(const vg_view *view, const char *id);

/* Returns {"items","next"} of GPUs. marker: as for VMs. */
json_object *vg_doc_gpus(const vg_view *view, size_t limit, const char *marker, GError **err);

/* Returns the document of one VM's GPU use. */
json_object *vg_doc_vm_gpu(const vg_view *view, const struct vg_snap_vm *vm);

/* Returns the document of requests on one GPU. Fails with VG_E_NOT_FOUND if the query's VM is
 * unknown. The query's device is a GPU id. since_ns INT64_MIN and until_ns INT64_MAX mean "not
 * given". */
json_object *vg_doc_gpu_requests(const vg_view *view, const struct vg_gpu_log_query *query,
                                 GError **err);

json_object *vg_doc_samples(const char *id, const char *name, const struct vg_history_query *query,
                            const GArray *rows);

/* Returns {"id","name"}, and "label" if the VM has another label. view: NULL if labels are
 * unknown. */
json_object *vg_doc_vm_name(const vg_view *view, const char *id, const char *name);

/* Adds the labels of the view's VMs (with "id" and "name") and aggressors to a document, wherever
 * it names them. */
void vg_doc_add_labels(const vg_view *view, json_object *value);

/* Adds "made_ns" and "made". */
void vg_doc_add_made(json_object *object, int64_t made_ns);

/* Returns the document of the host's CPUs in the newest window: the use of each, the vCPUs seen on
 * it, and the VMs pinned to it. */
json_object *vg_doc_host_cpus(const vg_view *view);

/* Returns the total CPU time of all VMs' vCPUs in a window. */
int64_t vg_doc_vms_ns(const struct vg_window *window);

/* Returns the list of raised alerts: those of the view, and those for VMs without their GPUs. */
json_object *vg_doc_alerts(const vg_view *view, const struct vg_backend *backend);

/* Returns the text for Prometheus; the caller frees it. certificate_end_ns: INT64_MAX without a
 * certificate. */
struct vg_http_stats;
char *vg_doc_metrics(const vg_view *view, const GPtrArray *parts,
                     const struct vg_daemon_stats *stats, const GPtrArray *bare,
                     int64_t certificate_end_ns, const struct vg_http_stats *http);

/* Adds a figure of the host; null if it is negative, which means unknown. */
void vg_doc_add_known(json_object *object, const char *name, int64_t value);

#endif
