/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/gpu-config.h"

#include "collectors/gpu-trace.h"
#include "collectors/gpu.h"

#define DRM "/sys/class/drm"

vg_collector *
vg_gpu_config_collector(const struct vg_daemon_config *config, vg_window_grid *grid)
{
    const struct vg_gpu_options options = {.proc = "/proc",
                                           .window_ns = config->window_ns,
                                           .grid = grid,
                                           .sample_ns = config->gpu_sample_ns};
    const struct vg_gpu_trace_options trace = {
        .proc = options.proc, .drm = DRM, .budget = config->gpu_budget / 100};
    vg_gpu_source *sources[VG_GPU_SOURCES_MAX];
    unsigned n = 0;

    if (!config->gpu)
        return NULL;
    if (config->gpu_fdinfo)
        sources[n++] = vg_gpu_fdinfo_new(options.proc, DRM);
    if (config->gpu_nvml && config->gpu_nvml_library[0])
        sources[n++] = vg_gpu_nvml_new(options.proc, config->gpu_nvml_library, 0);
    if (config->gpu_tracepoints)
        sources[n++] = vg_gpu_trace_new(&trace);
    if (config->gpu_proxies[0])
        sources[n++] = vg_gpu_proxy_new(config->gpu_proxies);
    if (config->gpu_venus)
        sources[n++] = vg_gpu_venus_new(options.proc, DRM);
    return n > 0 ? vg_gpu_new(&options, sources, n) : NULL;
}
