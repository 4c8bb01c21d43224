/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds windows to a step of the whole host.
 */
#ifndef VG_STORE_STORE_STEP_H
#define VG_STORE_STORE_STEP_H

#include "store/store-row.h"
#include "store/store-window.h"

/* Adds a window in memory. The caller handles its time and lost events. */
void vg_store_step_add_window(struct vg_history_step *step, const struct vg_store_window *window);

/* Adds a row of `win` from the file, with the same rule. Returns 0 or -1. */
int vg_store_step_add_win(struct vg_store_file *file, const struct vg_store_win *win,
                          struct vg_history_step *step, GError **err);

#endif
