/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures in every window how this host's VMs use its GPUs. The data come from several sources
 * (collectors/gpu-source.h), any of which may have nothing to measure here. There is no CPU data:
 * the windows complete those of other collectors (struct vg_provenance, besides).
 *
 *   gpu-fdinfo  DRM files of QEMU: /proc/PID/fdinfo -> fdinfo-text: counters of clients
 *   gpu-nvml    nvml (dlopen, a table of functions) -> nvml-device, nvml-process, nvml-vgpu:
 *               per cent, several times a window; nvml-log: turns of vGPUs
 *   gpu-trace   gpu-tracepoints (which there are) -> perf-events, perf-merge, adapters
 *               -> gpu-cards (names of GPUs) -> ledger/gpu-ledger -> VMs, within a budget
 *
 *   gpu-venus   render servers of VMs: /proc/PID/stat and status
 *
 * gpu-trace comes after the driver sources, because it replaces their data about the same VM and
 * GPU (vg_gpu_window_lead()). gpu-venus comes last: it counts only where they found nothing.
 *
 * Windows end at multiples of window_ns of CLOCK_MONOTONIC, like those of collectors/live.h. Empty
 * windows are reported, too, so that no other component waits for them. A late reading makes a
 * long window, in which nothing is lost (engine/gather.h splits it).
 */
#ifndef VG_COLLECTORS_GPU_H
#define VG_COLLECTORS_GPU_H

#include "collectors/collector.h"
#include "collectors/gpu-source.h"
#include "collectors/window-grid.h"

#define VG_GPU_SOURCES_MAX 5

struct vg_gpu_options {
    const char *proc; /* "/proc" except in tests */
    int64_t window_ns;
    vg_window_grid *grid; /* window ends shared with other collectors; NULL for a private grid */
    int64_t sample_ns;    /* interval of samples of values that are not counters */
};

/* Creates the collector. Takes the sources, which are queried in this order. */
vg_collector *vg_gpu_new(const struct vg_gpu_options *options, vg_gpu_source *const *take_sources,
                         unsigned n_sources);

#endif
