/* SPDX-License-Identifier: Apache-2.0
 *
 * Which VMs took CPU time of which, as a bounded number of counters that never fall. Of each VM
 * that waits, the `top` VMs that took most of it in the last hour get a counter of their own; what
 * all others take counts in "other". A pair counts in "other" until it gets its counter, which
 * begins at 0, and from then on there. A counter ends an hour after its pair left the first, or
 * with the VM that waits; after that its pair counts in "other" again. So all that a VM lost to VMs
 * is in exactly one counter at any time. A VM has at most 2 * top counters besides "other"; until
 * one is free, a new pair stays in "other". One thread at a time.
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
    uint32_t vm_id;        /* who waited, as in the windows */
    GRefString *aggressor; /* the name of a VM; NULL for "other" */
    int64_t ns;
};

typedef struct vg_lost_series vg_lost_series;

/* top: 1 to VG_LOST_SERIES_TOP_MAX. */
vg_lost_series *vg_lost_series_new(guint top);
void vg_lost_series_free(vg_lost_series *series); /* NULL is fine */

/* Takes a window. keep: VMs that it does not have are not gone (a recording). */
void vg_lost_series_step(vg_lost_series *series, const struct vg_window *window, bool keep);

/* Makes an array of struct vg_lost_serie, by vm_id. The caller unrefs it. */
GArray *vg_lost_series_list(const vg_lost_series *series);

/* Finds the first counter of a VM in such an array, which its others follow. */
guint vg_lost_series_find(const GArray *list, uint32_t vm_id);

#endif
