/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/provenance.h"

const char *
vg_measure_name(enum vg_measure measure)
{
    static const char *const names[VG_MEASURE_MAX] = {
        [VG_MEASURE_RUN] = "run",     [VG_MEASURE_WAIT] = "wait",
        [VG_MEASURE_GUEST] = "guest", [VG_MEASURE_WAIT_KINDS] = "wait_kinds",
        [VG_MEASURE_EXITS] = "exits", [VG_MEASURE_LOST_TO] = "lost_to",
    };

    return names[measure];
}

void
vg_provenance_set_all(struct vg_provenance *provenance, const char *source, double confidence)
{
    for (unsigned i = 0; i < VG_MEASURE_MAX; i++)
        provenance->measures[i] = (struct vg_measured){.source = source, .confidence = confidence};
}

void
vg_provenance_lacks(struct vg_provenance *provenance, enum vg_measure measure, const char *reason)
{
    provenance->measures[measure] = (struct vg_measured){.reason = reason};
}
