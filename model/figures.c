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

#define NO_RUN  VG_CPU_NO_SWITCHES
#define NO_WAIT (VG_CPU_NO_SWITCHES | VG_CPU_ABSENT_CPUS)

const struct vg_figure_beside vg_cpu_figures_beside[] = {
    {"exits", VG_CPU_NO_EXITS, VG_CPU_NO_SWITCHES | VG_CPU_ABSENT_CPUS},
    {"cpu_intensity", NO_WAIT, VG_CPU_NO_WAKEUPS},
    {"gpu_intensity", VG_CPU_NO_GPU_ENDS, 0},
    {"class", VG_CPU_NO_WAITS | VG_CPU_NO_GPU_ENDS, 0},
    {"lost_to", NO_WAIT, VG_CPU_NO_WAKEUPS},
    {0},
};

const struct vg_figure_beside vg_cpu_rates[] = {
    {"rates.run_share", NO_RUN, VG_CPU_ABSENT_CPUS},
    {"rates.preempt_share", NO_WAIT, 0},
    {"rates.wake_wait_share", VG_CPU_NO_WAITS, 0},
    {"rates.preemptions_per_s", NO_RUN, VG_CPU_ABSENT_CPUS},
    {0},
};

const struct vg_figure_beside vg_cpu_shares[] = {
    {"cpu_intensity", NO_WAIT, VG_CPU_NO_WAKEUPS},
    {"class", VG_CPU_NO_WAITS | VG_CPU_NO_GPU_ENDS, 0},
    {"run_share", NO_RUN, VG_CPU_ABSENT_CPUS},
    {"preempt_share", NO_WAIT, 0},
    {"wake_wait_share", VG_CPU_NO_WAITS, 0},
    {"preemptions_per_s", NO_RUN, VG_CPU_ABSENT_CPUS},
    {"profile.cpu", NO_WAIT, VG_CPU_NO_WAKEUPS},
    {"lost_to", NO_WAIT, VG_CPU_NO_WAKEUPS},
    {"gpu", VG_CPU_NO_GPU_ENDS, 0},
    {"gpu_intensity", VG_CPU_NO_GPU_ENDS, 0},
    {"profile.gpu", VG_CPU_NO_GPU_ENDS, 0},
    {0},
};

static enum vg_known
figures_known(unsigned int lacks, unsigned int bounded_by, unsigned int missing)
{
    if (lacks & missing)
        return VG_KNOWN_NOT;
    return bounded_by & missing ? VG_KNOWN_BOUND : VG_KNOWN;
}

enum vg_known
vg_figure_known(const struct vg_figure *figure, unsigned int lacks)
{
    return figures_known(figure->lacks, figure->bounded_by, lacks);
}

enum vg_known
vg_figure_beside_known(const struct vg_figure_beside *figure, unsigned int lacks)
{
    return figures_known(figure->lacks, figure->bounded_by, lacks);
}

GPtrArray *
vg_figure_names(unsigned int lacks, enum vg_known known)
{
    GPtrArray *names = g_ptr_array_new();

    for (size_t i = 0; i < vg_cpu_figure_rows_size; i++) {
        if (vg_figure_known(&vg_cpu_figure_rows[i], lacks) == known)
            g_ptr_array_add(names, (void *)vg_cpu_figure_rows[i].name);
    }
    for (const struct vg_figure_beside *one = vg_cpu_figures_beside; one->name; one++) {
        if (vg_figure_beside_known(one, lacks) == known)
            g_ptr_array_add(names, (void *)one->name);
    }
    return names;
}

const struct vg_figure *
vg_figure_of_family(const struct vg_figure *rows, size_t n, int place)
{
    for (size_t i = 0; i < n; i++) {
        if (rows[i].family == place)
            return &rows[i];
    }
    return NULL;
}
