/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows added up: totals since a start, minutes made of seconds. VMs are matched by their id
 * and vCPUs by tid, so all windows must come from one source of ids. What cannot be added (latency
 * percentiles of GPU requests) keeps the value of the window in which there were most requests.
 * One thread at a time.
 */
#ifndef VG_MODEL_WINDOW_SUM_H
#define VG_MODEL_WINDOW_SUM_H

#include "model/window.h"

/* sum += more. sum was initialised with vg_window_init() and holds windows before more; the first
 * one sets its begin. Names are those of the newest window. Tasks are not added. */
void vg_window_add(struct vg_window *sum, const struct vg_window *more);

/* Forgets VMs of the sum that the window does not have; entries of lost_to that name them become
 * VG_AGGRESSOR_HOST_UNKNOWN. */
void vg_window_keep_only(struct vg_window *sum, const struct vg_window *window);

/* A deep copy into an uninitialised struct; tasks are left out. */
void vg_window_copy(struct vg_window *to, const struct vg_window *from);

#endif
