/* SPDX-License-Identifier: Apache-2.0
 *
 * CPUs whose records begin later than the recording. A flight recorder keeps the newest records of
 * each CPU, so a CPU that records much goes back less far than one that records little. Only where
 * the recorder says that there was something before (which it has overwritten or dropped, or which
 * is in another part of a rotated session) is a CPU late; one that is merely silent at first is
 * taken to have been idle. What happened on a late CPU before its records begin was not observed.
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

/* Adds a late CPU; of one that is added twice the later time counts. */
void vg_late_cpus_add(GArray *late, int32_t cpu, int64_t begin_ns);

/* From when on there are the records of all CPUs; VG_TIME_UNKNOWN: there is no late one. */
int64_t vg_late_cpus_covered_ns(const GArray *late);

/* What was not recorded of a late CPU in a recording that begins at begin_ns. */
struct vg_event vg_late_cpu_loss(const struct vg_late_cpu *late, int64_t begin_ns);

/* Is what is not covered of a recording more than a hundredth of it? length_ns: 0: not known. */
bool vg_late_cpus_matter(const GArray *late, int64_t begin_ns, int64_t length_ns);

/* Tells of them as a problem of the recording, if they matter. */
void vg_late_cpus_tell(vg_recording *recording, int64_t begin_ns);

#endif
