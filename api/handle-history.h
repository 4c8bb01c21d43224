/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of VMs and of preemptions over a past period, from the store.
 */
#ifndef VG_API_HANDLE_HISTORY_H
#define VG_API_HANDLE_HISTORY_H

#include "api/request.h"

/* Time limit for reading the store: half of the default limit for hung threads. */
#define VG_QUERY_LIMIT_NS (10 * VG_NS_PER_S)

/* Returns whether the query has a since or an until. */
bool vg_period_is_asked(const struct vg_query *query);

/* Sets since_ns and until_ns. By default, until is the present time, and since is an hour earlier.
 * During a replay, now is the end of the newest window. VG_E_INVALID names the parameter. */
int vg_period_read(const struct vg_query *query, const vg_view *view, struct vg_history_query *ret,
                   GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Returns the present time; during a replay, the end of the newest window. */
int64_t vg_history_now(const vg_view *view);

/* Returns the key of a VM's stored windows. A client may give libvirt's UUID, which the collectors
 * may not know. vm: NULL if the VM is not measured now; id: as given by the client. */
const char *vg_history_key(const vg_view *view, const struct vg_snap_vm *vm, const char *id);

/* Answers with the list of VMs, or of preemptions, of the period. Uses the query's vm and marker;
 * the caller has checked their lengths. */
void vg_handle_history(struct vg_request *request, bool preemptions, enum vg_vm_sort sort,
                       size_t limit);

#endif
