/* SPDX-License-Identifier: Apache-2.0
 *
 * CPU time that VMs took from each other, as a bounded number of counters that never decrease. For
 * each waiting VM, the `top` VMs that took most of its time in the last hour have counters of their
 * own; "other" counts the time that all remaining VMs took. A pair of VMs counts in "other" until
 * it gets a counter, which starts at 0; from then on, it counts only in that counter. The counter
 * is removed an hour after the pair left the top, or when the waiting VM no longer exists;
 * afterwards the pair counts in "other" again. So at any time, all that a VM lost to other VMs is
 * in exactly one counter. A VM has at most 2 * top counters in addition to "other"; a new pair
 * stays in "other" until one of them is free. One thread at a time.
 */
#ifndef VG_MODEL_LOST_SERIES_H
#define VG_MODEL_LOST_SERIES_H

#include <stdint.h>

#include <glib.h>

#include "model/window.h"

#define VG_LOST_SERIES_TOP_MAX 128
#define VG_LOST_SERIES_OTHER   "other"

/* A counter. */
struct vg_lost_serie {
    uint32_t vm_id;        /* the VM that waited; id as in the windows */
    GRefString *aggressor; /* the name of a VM; NULL for "other" */
    int64_t ns;
};

typedef struct vg_lost_series vg_lost_series;

/* top: 1 to VG_LOST_SERIES_TOP_MAX. */
vg_lost_series *vg_lost_series_new(guint top);
void vg_lost_series_free(vg_lost_series *series); /* NULL is fine */

/* Processes a window. keep: VMs that the window does not contain still exist (as in a recording).
 */
void vg_lost_series_step(vg_lost_series *series, const struct vg_window *window, bool keep);

/* Returns an array of struct vg_lost_serie, by vm_id. The caller unrefs it. */
GArray *vg_lost_series_list(const vg_lost_series *series);

/* Returns the index of a VM's first counter in such an array. Its other counters follow. */
guint vg_lost_series_find(const GArray *list, uint32_t vm_id);

#endif
