/* SPDX-License-Identifier: Apache-2.0
 *
 * What a recorder tells of how much of the time its records cover, known before the first event. A
 * flight recorder keeps the newest records of each CPU: those of a busy one begin later than those
 * of the others. A CPU is late only where the recorder says that records of it are missing; else it
 * was idle. One thread at a time.
 */
#ifndef VG_TRACE_COVERAGE_H
#define VG_TRACE_COVERAGE_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "model/event.h"

struct vg_coverage {
    int64_t begin_ns, end_ns; /* of the records; VG_TIME_UNKNOWN: not known yet */
    /* When the records of the last CPU begin, of those that are late; begin_ns without any. */
    int64_t all_begin_ns;
    int64_t all_end_ns; /* from when on the records of a CPU are missing; VG_TIME_MAX: never */
    GArray *late_cpus;  /* int32_t, ascending */
    uint64_t told_cpus[VG_CPU_LIMIT / 64]; /* a bit for each whose begin the recorder tells */
    uint32_t gpu_ops;                      /* 1 << enum vg_gpu_op: as of vg_gpu_ledger_tells() */
};

void vg_coverage_init(struct vg_coverage *coverage);
void vg_coverage_clear(struct vg_coverage *coverage);

/* The records of this CPU begin only then, as the recorder says. begin_ns must be known. */
void vg_coverage_add_late(struct vg_coverage *coverage, int32_t cpu, int64_t begin_ns);
void vg_coverage_add_told(struct vg_coverage *coverage, int32_t cpu);
bool vg_coverage_is_told(const struct vg_coverage *coverage, int32_t cpu);

/* An event of this name can be in the recording. */
void vg_coverage_add_event(struct vg_coverage *coverage, const char *event_name);

/* Where the analysis of a recording begins unless somebody says otherwise: where all CPUs are
 * covered, if that leaves out more than 1 % of it. false: at its first event. */
bool vg_coverage_begin(const struct vg_coverage *coverage, int64_t *ret_ns);

#endif
