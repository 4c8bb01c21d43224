/* SPDX-License-Identifier: Apache-2.0
 *
 * Tells how the VMs of this host use its GPUs, every window: from what several sources
 * (collectors/gpu-source.h) see, each of which may have nothing to see here. Tells nothing of CPUs:
 * its windows complete those of others (struct vg_provenance, besides).
 *
 *   gpu-fdinfo  DRM files of QEMU: /proc/PID/fdinfo -> fdinfo-text: counters of clients
 *   gpu-nvml    nvml (dlopen, a table of functions) -> nvml-device, nvml-process, nvml-vgpu:
 *               per cent, several times a window; nvml-log: turns of vGPUs
 *   gpu-trace   gpu-tracepoints (which there are) -> perf-events, perf-merge, adapters
 *               -> gpu-cards (names of GPUs) -> ledger/gpu-ledger -> VMs, within a budget
 *
 *   gpu-venus   render servers of VMs: /proc/PID/stat and status
 *
 * gpu-trace comes after those of drivers, as it takes the place of what the others told of the same
 * VM and GPU (vg_gpu_window_lead()), and gpu-venus is the last one: it counts where they know of
 * nothing.
 *
 * Windows end at multiples of window_ns of CLOCK_MONOTONIC, as those of collectors/live.h. There is
 * one also when there is nothing to tell, so that nobody waits for it. Who reads late makes a long
 * one, in which nothing is lost (engine/gather.h cuts it).
 */
#ifndef VG_COLLECTORS_GPU_H
#define VG_COLLECTORS_GPU_H

#include "collectors/collector.h"
#include "collectors/gpu-source.h"
#include "collectors/window-grid.h"

#define VG_GPU_SOURCES_MAX 5

struct vg_gpu_options {
    const char *proc; /* "/proc" but in tests */
    int64_t window_ns;
    vg_window_grid *grid; /* when windows end, which others share; NULL: one of its own */
    int64_t sample_ns;    /* time between two samples of what is no counter */
};

/* Makes the collector; takes the sources, in the order in which they are asked. */
vg_collector *vg_gpu_new(const struct vg_gpu_options *options, vg_gpu_source *const *take_sources,
                         unsigned n_sources);

#endif
