/* SPDX-License-Identifier: Apache-2.0
 *
 * GPU requests by tracepoints, as they happen: the source of GPU use that tells who waited for a
 * GPU, besides who used it. It needs CAP_PERFMON (or kernel.perf_event_paranoid=-1), to read
 * tracefs, which is root's, and to be in the host's own pid namespace.
 */
#ifndef VG_COLLECTORS_GPU_TRACE_H
#define VG_COLLECTORS_GPU_TRACE_H

#include "collectors/gpu-source.h"
#include "collectors/perf-events.h"

/* Access to rings; handle is what open() returned, the rest is as in collectors/perf-events.h. */
struct vg_gpu_rings {
    void *(*open)(void *data, vg_perf_merge *merge, const char *tracefs,
                  const struct vg_perf_set *set, GError **err);
    void (*close)(void *handle);
    int (*fd)(const void *handle);
    int (*follow_cpus)(void *handle, GError **err);
    uint64_t (*lost)(void *handle, int32_t cpu);
};

struct vg_gpu_trace_options {
    const char *proc;                 /* "/proc" but in tests */
    const char *drm;                  /* "/sys/class/drm" but in tests */
    const char *tracefs;              /* NULL: its usual place */
    double budget;                    /* CPU seconds per second that it may take; 0: unlimited */
    int64_t retry_ns;                 /* first pause after a failure or above the budget; 0: 30 s */
    const struct vg_gpu_rings *rings; /* NULL: the kernel's */
    void *rings_data;                 /* data for their open() */
};

/* Makes the source, which comes last of a collector's: it replaces what others told of what it
 * sees. */
vg_gpu_source *vg_gpu_trace_new(const struct vg_gpu_trace_options *options);

#endif
