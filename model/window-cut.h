/* SPDX-License-Identifier: Apache-2.0
 *
 * A window of the use of GPUs that was read late, and so is longer than the windows that it belongs
 * to, cut into two. Pure.
 */
#ifndef VG_MODEL_WINDOW_CUT_H
#define VG_MODEL_WINDOW_CUT_H

#include "model/window.h"

/* Takes the time up to at_ns, which is inside of window, out of it into the uninitialised first.
 * What grows with time is spread evenly, and the two have together what there was; what is told of
 * an end, means and percentiles are the same in both; a request goes where it ended. What vCPUs
 * did, of which window must tell nothing, is not cut. */
void vg_window_cut(struct vg_window *window, int64_t at_ns, struct vg_window *first);

#endif
