/* SPDX-License-Identifier: Apache-2.0
 *
 * Columns of figures that analyses and vgpud's answers have in common, for tables of struct
 * vg_column.
 */
#ifndef VG_CLI_FIGURE_COLUMNS_H
#define VG_CLI_FIGURE_COLUMNS_H

#include "cli/output.h"
#include "model/figures.h"

/* The columns of a table of figures, each followed by a comma. */
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
/* For a VM or vCPU. */
#define VG_FIGURE_COLUMNS VG_CPU_FIGURES(VG_FIGURE_COLUMN)

/* For a GPU engine or its use by one VM or process. */
#define VG_GPU_COLUMNS VG_GPU_FIGURES(VG_FIGURE_COLUMN)

/* For an entry of lost_to, after its count. */
#define VG_LOSS_ROLE_COLUMNS                                                                       \
    {"BY VCPUS s", "vcpu_ns", VG_CELL_SECONDS, true},                                              \
    {"BY EMULATOR s", "emulator_ns", VG_CELL_SECONDS, true}
/* clang-format on */

#endif
