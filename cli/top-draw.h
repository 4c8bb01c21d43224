/* SPDX-License-Identifier: Apache-2.0
 *
 * Draws `vgpuctl top` on a grid of any size. Pure, except that it adjusts the model's scrolling to
 * the available space.
 */
#ifndef VG_CLI_TOP_DRAW_H
#define VG_CLI_TOP_DRAW_H

#include <stdint.h>

#include "cli/grid.h"
#include "cli/top-model.h"

/* Current data that are not in the model. */
struct vg_top_now {
    int64_t epoch_ns;
    int64_t asking_ns; /* time elapsed without an answer; 0 if none is expected */
};

void vg_top_draw(struct vg_top_model *model, vg_grid *grid, const struct vg_top_now *now);

/* Draws the details of one VM, from the given row to the second last row. */
void vg_top_draw_detail(struct vg_top_model *model, vg_grid *grid, int row);

#define VG_TOP_FIGURE_LEN 24

/* Formats a figure briefly, "-" for NAN; returns buf. Large values have no decimals. */
const char *vg_top_figure(char buf[VG_TOP_FIGURE_LEN], double value, int decimals);

/* "2.0 s", "3 min", "5 h", "12 d"; returns buf. */
const char *vg_top_duration(char buf[VG_TOP_FIGURE_LEN], int64_t ns);

#endif
