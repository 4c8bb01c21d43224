/* SPDX-License-Identifier: Apache-2.0
 *
 * CPUs whose records start later than the recording. A flight recorder keeps the newest records of
 * each CPU, so the records of a busy CPU start later than the records of an idle CPU. A CPU counts
 * as late only if the recorder reports earlier records that were overwritten, dropped, or are in
 * another part of a rotated session. Without such a report, a CPU that has no records at first is
 * assumed idle. The activity of a late CPU before its first record was not observed.
 */
#ifndef VG_TRACE_LATE_CPUS_H
#define VG_TRACE_LATE_CPUS_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "model/event.h"
#include "trace/recording.h"

struct vg_late_cpu {
    int32_t cpu;
    int64_t begin_ns; /* of its records */
};

/* Adds a late CPU. If it is added twice, the later time is used. */
void vg_late_cpus_add(GArray *late, int32_t cpu, int64_t begin_ns);

/* Returns the time when the records of all CPUs have started, or VG_TIME_UNKNOWN without late
 * CPUs. */
int64_t vg_late_cpus_covered_ns(const GArray *late);

/* Returns an event for the missing records of a late CPU in a recording that starts at begin_ns. */
struct vg_event vg_late_cpu_loss(const struct vg_late_cpu *late, int64_t begin_ns);

/* Returns whether more than a hundredth of a recording is not covered. length_ns is 0 if
 * unknown. */
bool vg_late_cpus_matter(const GArray *late, int64_t begin_ns, int64_t length_ns);

/* Adds a problem to the recording if the late CPUs matter. */
void vg_late_cpus_report(vg_recording *recording, int64_t begin_ns);

#endif
