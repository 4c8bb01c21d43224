/* SPDX-License-Identifier: Apache-2.0
 *
 * GPU requests by tracepoints, as they happen: the source of GPU use that tells who waited for a
 * GPU, besides who used it. Needs CAP_PERFMON (or kernel.perf_event_paranoid=-1), to read tracefs,
 * which is root's, and to be in the host's own pid namespace.
 */
#ifndef VG_COLLECTORS_GPU_TRACE_H
#define VG_COLLECTORS_GPU_TRACE_H

#include "collectors/gpu-source.h"
#include "collectors/perf-events.h"

/* How rings are had; handle is what open() returned, the rest as in collectors/perf-events.h. */
struct vg_gpu_rings {
    void *(*open)(void *data, vg_perf_merge *merge, const char *tracefs,
                  const struct vg_perf_set *set, GError **err);
    void (*close)(void *handle);
    int (*fd)(const void *handle);
    int (*follow_cpus)(void *handle, GError **err);
    uint64_t (*lost)(void *handle, int32_t cpu);
};

struct vg_gpu_trace_options {
    const char *proc;    /* "/proc" but in tests */
    const char *drm;     /* "/sys/class/drm" but in tests */
    const char *tracefs; /* NULL: where it usually is */
    double budget;       /* CPU seconds per second that it may take; 0: as much as it wants */
    int64_t retry_ns;    /* after a failure or above the budget, the first time; 0: 30 s */
    const struct vg_gpu_rings *rings; /* NULL: the kernel's */
    void *rings_data;                 /* for their open() */
};

/* The last of a collector's sources: of what it sees it replaces what others told. */
vg_gpu_source *vg_gpu_trace_new(const struct vg_gpu_trace_options *options);

#endif
