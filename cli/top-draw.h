/* SPDX-License-Identifier: Apache-2.0
 *
 * Draws what `vgpuctl top` shows on a grid of any size. Pure but for the model's scrolling, which
 * follows what there is room for.
 */
#ifndef VG_CLI_TOP_DRAW_H
#define VG_CLI_TOP_DRAW_H

#include <stdint.h>

#include "cli/grid.h"
#include "cli/top-model.h"

/* The present, as the model does not know it. */
struct vg_top_now {
    int64_t epoch_ns;
    int64_t asking_ns; /* for so long there has been no answer; 0: none is waited for */
};

void vg_top_draw(struct vg_top_model *model, vg_grid *grid, const struct vg_top_now *now);

/* The detail of one VM, from the row on to the last but one. */
void vg_top_draw_detail(struct vg_top_model *model, vg_grid *grid, int row);

#define VG_TOP_FIGURE_LEN 24

/* A figure in few characters, "-" for NAN; returns buf. decimals are left out of large ones. */
const char *vg_top_figure(char buf[VG_TOP_FIGURE_LEN], double value, int decimals);

/* "2.0 s", "3 min", "5 h", "12 d"; returns buf. */
const char *vg_top_duration(char buf[VG_TOP_FIGURE_LEN], int64_t ns);

#endif
