/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests for a time that is past.
 */
#ifndef VG_API_HANDLE_PAST_H
#define VG_API_HANDLE_PAST_H

#include "api/request.h"

/* Is there a since or an until? */
bool vg_past_is_asked(const struct vg_query *query);

/* Sets since_ns and until_ns: by default now, and an hour before until. While a recording is
 * replayed, now is the end of its newest window. VG_E_INVALID naming the parameter. */
int vg_past_read_period(const struct vg_query *query, const vg_view *view,
                        struct vg_history_query *ret, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Answers with the list of VMs, or of preemptions, of the period; vm and marker are the query's,
 * and their lengths have been looked at. */
void vg_past_begin(struct vg_request *request, bool preemptions, enum vg_vm_sort sort,
                   size_t limit);

/* Answers with events that are kept: since, until, from, types, limit; types have been looked at.
 */
void vg_handle_kept_events(struct vg_request *request);

#endif
