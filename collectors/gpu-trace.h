/* SPDX-License-Identifier: Apache-2.0
 *
 * A GPU source that traces requests through tracepoints. It shows which VMs waited for a GPU and
 * which used it. It requires CAP_PERFMON (or kernel.perf_event_paranoid=-1), read access to
 * tracefs, which root has, and the host's pid namespace.
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
    const char *proc;    /* "/proc" except in tests */
    const char *drm;     /* "/sys/class/drm" except in tests */
    const char *tracefs; /* NULL for the usual mount point */
    double budget;       /* CPU seconds per second that it may use; 0 if unlimited */
    int64_t retry_ns;    /* first pause after a failure or over the budget; 0 for 30 s */
    const struct vg_gpu_rings *rings; /* NULL for the kernel's */
    void *rings_data;                 /* data for their open() */
};

/* Creates the source. It must be the collector's last, because it replaces other sources' data
 * about what it measures. */
vg_gpu_source *vg_gpu_trace_new(const struct vg_gpu_trace_options *options);

#endif
