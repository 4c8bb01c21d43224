/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows added up: totals since a start, minutes made of seconds. VMs are matched by their id
 * and vCPUs by tid, so all windows must come from one source of ids. What cannot be added (latency
 * percentiles of GPU requests) keeps the value of the window in which there were most requests.
 * What is told of an end (memory, contexts) is that of the newest window: 0 where it has no such
 * row. Means are over the whole sum, and 0 where nobody told, but for confidence.
 * One thread at a time.
 */
#ifndef VG_MODEL_WINDOW_SUM_H
#define VG_MODEL_WINDOW_SUM_H

#include "model/window.h"

/* sum += more. sum was initialised with vg_window_init() and holds windows before more; the first
 * one sets its begin. Names are those of the newest window. Tasks are not added. */
void vg_window_add(struct vg_window *sum, const struct vg_window *more);

/* Adds a window to the sums of VMs that live: those that the window does not have are forgotten,
 * and one that has another name begins anew. What others lost to it stays lost to the name that it
 * had (sum->gone), until there are too many of these; then the name of the one that is gone for
 * longest is forgotten with its amounts. Nothing is ever added to the amount of another name. */
void vg_window_add_live(struct vg_window *sum, const struct vg_window *window);

/* A deep copy into an uninitialised struct; tasks are left out. */
void vg_window_copy(struct vg_window *to, const struct vg_window *from);

#endif
