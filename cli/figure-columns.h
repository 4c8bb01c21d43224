/* SPDX-License-Identifier: Apache-2.0
 *
 * Columns of the figures that analyses and answers of vgpud have alike, to be put into a table of
 * struct vg_column.
 */
#ifndef VG_CLI_FIGURE_COLUMNS_H
#define VG_CLI_FIGURE_COLUMNS_H

#include "cli/output.h"
#include "model/figures.h"

/* The columns of a table of figures, each with a comma behind it. */
#define VG_FIGURE_COLUMN(place, member, kind, unit, lacks, shape, heading, ...)                    \
 VG_FIGURE_COLUMN_##shape(heading, #member, VG_FIGURE_CELL_##unit)
#define VG_FIGURE_COLUMN_NARROW(heading, member, cell) {heading, member, cell, false},
#define VG_FIGURE_COLUMN_WIDE(heading, member, cell)   {heading, member, cell, true},
#define VG_FIGURE_COLUMN_NONE(heading, member, cell)

#define VG_FIGURE_CELL_NS      VG_CELL_SECONDS
#define VG_FIGURE_CELL_LATENCY VG_CELL_MILLISECONDS
#define VG_FIGURE_CELL_COUNT   VG_CELL_COUNT
#define VG_FIGURE_CELL_BYTES   VG_CELL_MIB
#define VG_FIGURE_CELL_RATIO   VG_CELL_SHARE
#define VG_FIGURE_CELL_SHARE   VG_CELL_PERCENT

/* clang-format off */
/* Of a VM or vCPU. */
#define VG_FIGURE_COLUMNS VG_CPU_FIGURES(VG_FIGURE_COLUMN)

/* Of an engine of a GPU, or its use by somebody. */
#define VG_GPU_COLUMNS VG_GPU_FIGURES(VG_FIGURE_COLUMN)

/* Of an entry of lost_to, behind its count. */
#define VG_LOSS_ROLE_COLUMNS                                                                       \
    {"BY VCPUS s", "vcpu_ns", VG_CELL_SECONDS, true},                                              \
    {"BY EMULATOR s", "emulator_ns", VG_CELL_SECONDS, true}
/* clang-format on */

#endif
