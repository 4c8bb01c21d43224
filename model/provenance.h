/* SPDX-License-Identifier: Apache-2.0
 *
 * How a window was measured: by whom, and how far each of its measures is to be trusted.
 */
#ifndef VG_MODEL_PROVENANCE_H
#define VG_MODEL_PROVENANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What may come from different places within one window. */
enum vg_measure {
    VG_MEASURE_RUN,        /* run_ns and blocked_ns */
    VG_MEASURE_WAIT,       /* preempt_ns + wake_wait_ns */
    VG_MEASURE_WAIT_KINDS, /* preempt and wake_wait are told apart */
    VG_MEASURE_GUEST,      /* guest_ns, and so hyp_ns */
    VG_MEASURE_EXITS,      /* entries and exits by class */
    VG_MEASURE_LOST_TO,    /* who ran while somebody waited; else it is all host:unknown */
    VG_MEASURE_MAX
};

struct vg_measured {
    const char *source; /* "bpf", "procfs", ...; NULL: not measured */
    double confidence;  /* 0..1: 1 is every event seen, 0.5 is polled counters */
    const char *reason; /* why it is not measured, or not better; or NULL */
};

#define VG_GPU_SOURCE_SIZE 64

/* Strings that measures point to are static or interned. */
struct vg_provenance {
    char source[64]; /* "bpf", "procfs", "replay:NAME": who measured most of it */
    char
        series[64]; /* what it is stored and asked for by: "live" whoever measured, "replay:NAME" */
    /* Who told how GPUs are used: "fdinfo, nvml". Of a part empty: who measured it. Of a whole
     * window empty: nobody. */
    char gpu_source[VG_GPU_SOURCE_SIZE];
    double confidence; /* 0..1, of the whole */
    int64_t cost_ns; /* CPU time spent for the window: by the collector, and by its programs in the
                      * kernel where that is known */
    uint64_t missed; /* windows right before this one that could not be measured */
    uint64_t gpu_missed; /* windows before this one whose use of GPUs was read too late for them */
    unsigned level;      /* of effort that was left out to stay within the budget; 0: everything */
    bool silent;         /* something that was to tell of guests never did */
    bool besides;        /* tells nothing of CPUs: it completes the windows of others */
    struct vg_measured measures[VG_MEASURE_MAX];
};

static inline bool
vg_provenance_knows(const struct vg_provenance *provenance, enum vg_measure measure)
{
    return provenance->measures[measure].source != NULL;
}

/* Says of all measures that they are of this source. */
void vg_provenance_set_all(struct vg_provenance *provenance, const char *source, double confidence);

/* Says of a measure why it is not known. */
void vg_provenance_lacks(struct vg_provenance *provenance, enum vg_measure measure,
                         const char *reason);

/* "run", "wait", "wait_kinds", "guest", "exits", "lost_to" */
const char *vg_measure_name(enum vg_measure measure);

#endif
