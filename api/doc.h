/* SPDX-License-Identifier: Apache-2.0
 *
 * The documents that are made of a view. The callers put the objects. Any thread.
 */
#ifndef VG_API_DOC_H
#define VG_API_DOC_H

#include <stdbool.h>
#include <stddef.h>

#include <glib.h>
#include <json-c/json.h>

#include "api/backend.h"

enum vg_vm_sort { VG_VM_SORT_NAME, VG_VM_SORT_LOST, VG_VM_SORT_CPU, VG_VM_SORT_GPU };

/* The text of a document, written if this is the first time; it lives as long as the view. */
const char *vg_view_text(vg_view *view, enum vg_view_body body, size_t *ret_size);

json_object *vg_doc_host(const vg_view *view, const GPtrArray *parts,
                         const struct vg_daemon_stats *stats);
json_object *vg_doc_parts(const GPtrArray *parts);
/* What the daemon is told to do. */
json_object *vg_doc_setup(const struct vg_daemon_stats *stats);
json_object *vg_doc_vm(const vg_view *view, const struct vg_snap_vm *vm);

/* Which VMs a list has. Patterns: '*' is any characters, '?' is one. */
struct vg_vm_filter {
    int vm_class;        /* -1: any */
    const char *project; /* of OpenStack, its name or id; NULL: any, or none */
    const char *name;    /* a pattern, of libvirt's name or of OpenStack's; NULL: any */
};

extern const struct vg_vm_filter vg_vm_filter_none; /* takes all */

bool vg_vm_filter_takes(const struct vg_vm_filter *filter, const struct vg_snap_vm *vm,
                        const struct vg_inv_vm *domain); /* domain: NULL where it is not known */

/* {"items","next"}. marker: where to go on, NULL for the first page; NULL and VG_E_INVALID if it is
 * not one of this order. */
json_object *vg_doc_vms(const vg_view *view, enum vg_vm_sort sort,
                        const struct vg_vm_filter *filter, size_t limit, const char *marker,
                        GError **err);

/* Likewise; victim: NULL for all. */
json_object *vg_doc_preemptions(const vg_view *view, const struct vg_snap_vm *victim, size_t limit,
                                const char *marker, GError **err);

/* Where an item is in an order: the value, most first, then the name, then the id, which no other
 * item has. All is borrowed. */
struct vg_doc_place {
    double value;
    const char *name;
    const char *id;
    const void *item; /* NULL: of a marker */
};
int vg_doc_compare_places(const void *a, const void *b);

/* The order of preemptions in markers, beside those of enum vg_vm_sort. */
#define VG_DOC_SORT_LOSSES 100

/* {"items","next"} of places (struct vg_doc_place) that are in order. sort: a number of this order,
 * for the marker. NULL and VG_E_INVALID: the marker is not of it. */
json_object *vg_doc_page(const void *data, const GArray *places, int sort, size_t limit,
                         const char *marker,
                         json_object *(*to_json)(const void *data, const void *item), GError **err);

/* Adds "rates": in cores, and per second. */
void vg_doc_add_rates(json_object *object, double run_share, double preempt_share,
                      double wake_wait_share, double preemptions_per_s);

/* Of a past time, from the store: figures of the host and a page of its VMs, or a page of who took
 * the CPU from whom. victim: key or name, NULL for all; VG_E_NOT_FOUND. */
json_object *vg_doc_history_vms(const struct vg_history_query *query, const vg_history_host *host,
                                enum vg_vm_sort sort, size_t limit, const char *marker,
                                GError **err);
json_object *vg_doc_history_preemptions(const struct vg_history_query *query,
                                        const vg_history_host *host, const char *victim,
                                        size_t limit, const char *marker, GError **err);

/* Losses (struct vg_history_loss) as an array. */
json_object *vg_doc_history_losses(const GArray *losses);

/* GPUs by the names that paths have for them; char *. The caller unrefs it. */
GPtrArray *vg_doc_gpu_ids(const vg_view *view);

/* One of these. */
json_object *vg_doc_gpu(const vg_view *view, const char *id);

/* {"items","next"}. marker: as for VMs. */
json_object *vg_doc_gpus(const vg_view *view, size_t limit, const char *marker, GError **err);

/* What one VM uses of GPUs. */
json_object *vg_doc_vm_gpu(const vg_view *view, const struct vg_snap_vm *vm);

/* Requests on one of the GPUs; VG_E_NOT_FOUND if nobody knows the query's VM. The query's device is
 * one of the GPUs' ids. since_ns INT64_MIN: not told; until_ns INT64_MAX likewise. */
json_object *vg_doc_gpu_requests(const vg_view *view, const struct vg_gpu_log_query *query,
                                 GError **err);

json_object *vg_doc_samples(const char *id, const char *name, const struct vg_history_query *query,
                            const GArray *rows);

/* {"id","name"}. */
json_object *vg_doc_vm_name(const char *id, const char *name);

/* Adds "made_ns" and "made". */
void vg_doc_add_made(json_object *object, int64_t made_ns);

/* The CPUs of the host in the newest window: what each did, whose vCPUs were there, and which VMs
 * are kept to it. */
json_object *vg_doc_host_cpus(const vg_view *view);

/* CPU time of all VMs' vCPUs in a window. */
int64_t vg_doc_vms_ns(const struct vg_window *window);

/* Text for Prometheus; the caller frees it. */
struct vg_http_stats;
char *vg_doc_metrics(const vg_view *view, const GPtrArray *parts,
                     const struct vg_daemon_stats *stats, const struct vg_http_stats *http);

/* A figure of the host; null where it is negative, which means that nobody tells it. */
void vg_doc_add_told(json_object *object, const char *name, int64_t value);

#endif
