/* SPDX-License-Identifier: Apache-2.0
 *
 * How a window was measured: the source and the reliability of each measure.
 */
#ifndef VG_MODEL_PROVENANCE_H
#define VG_MODEL_PROVENANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Measures that may have different sources within one window. */
enum vg_measure {
    VG_MEASURE_RUN,        /* run_ns and blocked_ns */
    VG_MEASURE_WAIT,       /* preempt_ns + wake_wait_ns */
    VG_MEASURE_WAIT_KINDS, /* preempt and wake_wait are distinguished */
    VG_MEASURE_GUEST,      /* guest_ns, and so hyp_ns */
    VG_MEASURE_EXITS,      /* entries and exits by class */
    VG_MEASURE_LOST_TO, /* what ran while a vCPU waited; without it, everything is host:unknown */
    VG_MEASURE_MAX
};

struct vg_measured {
    const char *source; /* "bpf", "procfs", ...; NULL if not measured */
    double confidence;  /* from 0 to 1, where 1 means that every event was seen, and 0.5 polled
                         * counters */
    const char *reason; /* why it is not measured, or not measured more precisely; may be NULL */
};

#define VG_GPU_SOURCE_SIZE 64

/* Strings in the measures are static or interned. */
struct vg_provenance {
    char source[64]; /* the main source: "bpf", "procfs", "replay:NAME" */
    char series[64]; /* name under which it is stored and queried: "live" for any live source,
                      * "replay:NAME" */
    /* Sources of GPU figures: "fdinfo, nvml". If empty in a part of a window, the source is that of
     * the part. If empty in a whole window, there was no source. */
    char gpu_source[VG_GPU_SOURCE_SIZE];
    double confidence;   /* 0..1, of the whole window */
    int64_t cost_ns;     /* CPU time spent on the window: by the collector and, if known, by its
                          * programs in the kernel */
    uint64_t missed;     /* number of preceding windows that could not be measured */
    uint64_t gpu_missed; /* number of earlier windows whose GPU use was read too late */
    unsigned level;      /* how much work was skipped to stay within the budget; 0 for none */
    bool silent;         /* a source that should have reported guest times never did */
    bool besides;        /* has no CPU figures: it completes the windows of other sources */
    struct vg_measured measures[VG_MEASURE_MAX];
};

static inline bool
vg_provenance_knows(const struct vg_provenance *provenance, enum vg_measure measure)
{
    return provenance->measures[measure].source != NULL;
}

/* Sets this source for all measures. */
void vg_provenance_set_all(struct vg_provenance *provenance, const char *source, double confidence);

/* Marks a measure as unknown, with the reason. */
void vg_provenance_lacks(struct vg_provenance *provenance, enum vg_measure measure,
                         const char *reason);

/* "run", "wait", "wait_kinds", "guest", "exits", "lost_to" */
const char *vg_measure_name(enum vg_measure measure);

#endif
