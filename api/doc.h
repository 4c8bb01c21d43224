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
json_object *vg_doc_vm_summary(const vg_view *view, const struct vg_snap_vm *vm);
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

/* Text for Prometheus; the caller frees it. */
struct vg_http_stats;
char *vg_doc_metrics(const vg_view *view, const GPtrArray *parts,
                     const struct vg_daemon_stats *stats, const struct vg_http_stats *http);

#endif
