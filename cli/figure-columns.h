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

/* Of an engine of a GPU, or its use by somebody. */
#define VG_GPU_COLUMNS                                                                             \
    {"BUSY %", "share", VG_CELL_PERCENT, false},                                                   \
    {"REQUESTS", "requests", VG_CELL_COUNT, false},                                                \
    {"WAIT s", "wait_ns", VG_CELL_SECONDS, false},                                                 \
    {"EXEC s", "exec_ns", VG_CELL_SECONDS, false},                                                 \
    {"P50 ms", "latency_p50_ns", VG_CELL_MILLISECONDS, false},                                     \
    {"P99 ms", "latency_p99_ns", VG_CELL_MILLISECONDS, false},                                     \
    {"QUEUE", "queue_len_avg", VG_CELL_SHARE, false},                                              \
    {"VGPU QUEUE s", "vgpu_queue_ns", VG_CELL_SECONDS, true},                                      \
    {"DEPENDENCY s", "dependency_ns", VG_CELL_SECONDS, true},                                      \
    {"DRIVER QUEUE s", "driver_queue_ns", VG_CELL_SECONDS, true},                                  \
    {"MAX ms", "latency_max_ns", VG_CELL_MILLISECONDS, true},                                      \
    {"QUEUE MAX", "queue_len_max", VG_CELL_COUNT, true},                                           \
    {"PARTIAL", "partial", VG_CELL_COUNT, true},                                                   \
    {"COALESCED", "coalesced", VG_CELL_COUNT, true},                                               \
    {"MEM MiB", "mem_bytes", VG_CELL_MIB, true},                                                   \
    {"SLICES", "slices", VG_CELL_COUNT, true},                                                     \
    {"SUSPENDED s", "suspended_ns", VG_CELL_SECONDS, true}

/* Of an entry of lost_to, behind its count. */
#define VG_LOSS_ROLE_COLUMNS                                                                       \
    {"BY VCPUS s", "vcpu_ns", VG_CELL_SECONDS, true},                                              \
    {"BY EMULATOR s", "emulator_ns", VG_CELL_SECONDS, true}
/* clang-format on */

#endif
