/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds up windows, for totals since the start and for sums of minutes. VMs are matched by their id
 * and vCPUs by tid, so all windows must have the same source of ids. Figures that cannot be added
 * (latency percentiles of GPU requests) have the value of the window with the most requests. Values
 * at the end of a window (memory, contexts) are those of the newest window, or 0 if it has no such
 * row. Means cover the whole sum, and are 0 if unknown, except confidence, which covers the windows
 * that have the row. One thread at a time.
 */
#ifndef VG_MODEL_WINDOW_SUM_H
#define VG_MODEL_WINDOW_SUM_H

#include "model/window.h"

/* sum += more. sum must be initialised with vg_window_init() and contain only windows before more.
 * The first window sets its start. Names are those of the newest window. Tasks are not added. */
void vg_window_add(struct vg_window *sum, const struct vg_window *more);

/* Adds a window to the sums of living VMs. A VM that the window does not contain is dropped, and a
 * VM with a new name starts again from zero. Time that others lost to it stays with its old name
 * (sum->gone). If there are too many such names, the name that disappeared first is dropped with
 * its amounts. Nothing is ever added to the amount of another name. */
void vg_window_add_live(struct vg_window *sum, const struct vg_window *window);

/* Makes a deep copy in an uninitialised struct. Tasks are left out. */
void vg_window_copy(struct vg_window *to, const struct vg_window *from);

#endif
