/* SPDX-License-Identifier: Apache-2.0
 *
 * Splits a window of GPU use that was read late, and is therefore longer than the windows that it
 * belongs to, into two. Pure.
 */
#ifndef VG_MODEL_WINDOW_CUT_H
#define VG_MODEL_WINDOW_CUT_H

#include "model/window.h"

/* Moves the part of the window before at_ns, which must be inside the window, to the uninitialised
 * struct first. Figures that grow with time are spread evenly, and their total is unchanged. Values
 * at the end of a window, means and percentiles are the same in both. A request belongs to the
 * window where it ended. vCPU figures are not split, so window must have none. */
void vg_window_cut(struct vg_window *window, int64_t at_ns, struct vg_window *first);

#endif
