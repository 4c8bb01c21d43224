/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/gpu-tracepoints.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collectors/perf-events.h"

/* The DRM scheduler's record of a new job, with its device (since Linux 6.17) and without. */
#define QUEUE_WITH_DEVICE    "gpu_scheduler/drm_sched_job_queue"
#define QUEUE_WITHOUT_DEVICE "gpu_scheduler/drm_sched_job"

/* The kernel's names since 4.4. The list omits xe's own records: they describe the same jobs as the
 * scheduler's, but nothing connects the two, so each job would count twice. amdgpu's records name
 * the driver, which the scheduler's do not. gvt_command, one record per command of each guest, is
 * far too expensive to read. */
static const struct known {
    const char *path;
    const char *unless[2]; /* omitted if one of these exists */
    bool only_with_others; /* useless without others */
} known[] = {
    {.path = QUEUE_WITH_DEVICE},
    {.path = "gpu_scheduler/drm_sched_job_run"},
    {.path = "gpu_scheduler/drm_sched_job_done"},
    {.path = QUEUE_WITHOUT_DEVICE},
    {.path = "gpu_scheduler/drm_run_job"},
    {.path = "gpu_scheduler/drm_sched_process_job"},
    {.path = "gpu_sched/amd_sched_job"},
    {.path = "gpu_sched/amd_sched_process_job"},
    {.path = "i915/i915_request_queue"},
    {.path = "i915/i915_request_add"},
    {.path = "i915/i915_request_add_domain"},
    {.path = "i915/i915_request_submit"},
    {.path = "i915/i915_request_execute"},
    {.path = "i915/i915_request_guc_submit"},
    {.path = "i915/i915_request_in"},
    {.path = "i915/i915_request_out"},
    {.path = "i915/i915_request_retire"},
    {.path = "i915/i915_gem_request_queue"},
    {.path = "i915/i915_gem_request_add"},
    {.path = "i915/i915_gem_request_add_domain"},
    {.path = "i915/i915_gem_request_submit"},
    {.path = "i915/i915_gem_request_execute"},
    {.path = "i915/i915_gem_request_in"},
    {.path = "i915/i915_gem_request_out"},
    {.path = "i915/i915_gem_request_retire"},
    {.path = "i915/i915_gem_request_notify"},
    {.path = "i915/intel_engine_notify"},
    {.path = "i915/i915_gem_object_create"},
    {.path = "i915/i915_gem_object_destroy"},
    {.path = "gvt/gvt_workload_queue"},
    {.path = "gvt/gvt_workload_submit"},
    {.path = "gvt/gvt_workload_complete"},
    {.path = "gvt/gvt_sched_switch"},
    {.path = "gvt/render_mmio"},
    {.path = "amdgpu/amdgpu_cs_ioctl", .unless = {QUEUE_WITH_DEVICE}},
    {.path = "amdgpu/amdgpu_sched_run_job", .unless = {QUEUE_WITH_DEVICE}},
    {.path = "xe/xe_sched_job_exec", .unless = {QUEUE_WITH_DEVICE, QUEUE_WITHOUT_DEVICE}},
    {.path = "xe/xe_sched_job_run", .unless = {QUEUE_WITH_DEVICE, QUEUE_WITHOUT_DEVICE}},
    {.path = "xe/xe_sched_job_free", .unless = {QUEUE_WITH_DEVICE, QUEUE_WITHOUT_DEVICE}},
    {.path = "xe/xe_hw_fence_signal", .unless = {QUEUE_WITH_DEVICE, QUEUE_WITHOUT_DEVICE}},
    {.path = "dma_fence/dma_fence_signaled", .only_with_others = true},
    {.path = "fence/fence_signaled", .only_with_others = true},
    {.path = "gpu_mem/gpu_mem_total", .only_with_others = true},
};

G_STATIC_ASSERT(G_N_ELEMENTS(known) <= VG_PERF_TRACEPOINTS_MAX);

static bool
is_there(const char *tracefs, const char *tracepoint)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/events/%s/format", tracefs, tracepoint);
    return faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) == 0;
}

static bool
is_wanted(const char *tracefs, const struct known *event)
{
    for (size_t i = 0; i < G_N_ELEMENTS(event->unless); i++) {
        if (event->unless[i] && is_there(tracefs, event->unless[i]))
            return false;
    }
    return is_there(tracefs, event->path);
}

GArray *
vg_gpu_tracepoints_find(const char *tracefs)
{
    GArray *found = g_array_new(FALSE, FALSE, sizeof(struct vg_perf_tracepoint));

    for (size_t i = 0; i < G_N_ELEMENTS(known); i++) {
        const struct vg_perf_tracepoint tracepoint = {.path = known[i].path};
        if ((!known[i].only_with_others || found->len > 0) && is_wanted(tracefs, &known[i]))
            g_array_append_val(found, tracepoint);
    }
    return found;
}

void
vg_gpu_tracepoints_describe(const GArray *tracepoints, GString *text)
{
    const char *last = "";

    /* Tracepoints of one system are adjacent. */
    for (unsigned i = 0; i < tracepoints->len; i++) {
        const char *path = g_array_index(tracepoints, struct vg_perf_tracepoint, i).path;
        size_t length = (size_t)(strchr(path, '/') - path) + 1;
        if (strncmp(last, path, length) == 0)
            continue;
        g_string_append_printf(text, "%s%.*s", i > 0 ? ", " : "", (int)length - 1, path);
        last = path;
    }
}
