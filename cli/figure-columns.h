/* SPDX-License-Identifier: Apache-2.0
 *
 * Columns of the figures that analyses and answers of vgpud have alike, to be put into a table of
 * struct vg_column.
 */
#ifndef VG_CLI_FIGURE_COLUMNS_H
#define VG_CLI_FIGURE_COLUMNS_H

#include "cli/output.h"

/* clang-format off */
/* Of a VM or vCPU. */
#define VG_FIGURE_COLUMNS                                                                          \
    {"RUN s", "run_ns", VG_CELL_SECONDS, false},                                                   \
    {"GUEST s", "guest_ns", VG_CELL_SECONDS, false},                                               \
    {"HYP s", "hyp_ns", VG_CELL_SECONDS, true},                                                    \
    {"PREEMPT s", "preempt_ns", VG_CELL_SECONDS, false},                                           \
    {"WAKE s", "wake_wait_ns", VG_CELL_SECONDS, false},                                            \
    {"BLOCKED s", "blocked_ns", VG_CELL_SECONDS, false},                                           \
    {"PREEMPTIONS", "preemptions", VG_CELL_COUNT, false},                                          \
    {"WAKEUPS", "wakeups", VG_CELL_COUNT, true},                                                   \
    {"BLOCKS", "blocks", VG_CELL_COUNT, true},                                                     \
    {"ENTRIES", "entries", VG_CELL_COUNT, true},                                                   \
    {"OBSERVED s", "observed_ns", VG_CELL_SECONDS, true}

/* Of an entry of lost_to, behind its count. */
#define VG_LOSS_ROLE_COLUMNS                                                                       \
    {"BY VCPUS s", "vcpu_ns", VG_CELL_SECONDS, true},                                              \
    {"BY EMULATOR s", "emulator_ns", VG_CELL_SECONDS, true}
/* clang-format on */

#endif
