/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/figures.h"

#include <glib.h>

#include "model/window.h"

#define ROW(at, member, kind, in_unit, known, shape, title, means, ...)                            \
 [at] = {.name = #member,                                                                          \
         .unit = VG_FIGURE_##in_unit,                                                              \
         .lacks = (known),                                                                         \
         .heading = (title),                                                                       \
         .meaning = (means),                                                                       \
         VG_FIGURE_IF_STORED(kind, .offset = offsetof(struct THIS, member), ) __VA_ARGS__},

#define THIS vg_cpu_figures
const struct vg_figure vg_cpu_figure_rows[] = {VG_CPU_FIGURES(ROW)};
const size_t vg_cpu_figure_rows_size = G_N_ELEMENTS(vg_cpu_figure_rows);
#undef THIS

#define THIS vg_gpu_sample
const struct vg_figure vg_gpu_figure_rows[] = {VG_GPU_FIGURES(ROW)};
const size_t vg_gpu_figure_rows_size = G_N_ELEMENTS(vg_gpu_figure_rows);
#undef THIS

const struct vg_figure *
vg_figure_of_family(const struct vg_figure *rows, size_t n, int place)
{
    for (size_t i = 0; i < n; i++) {
        if (rows[i].family == place)
            return &rows[i];
    }
    return NULL;
}
