/* SPDX-License-Identifier: Apache-2.0
 *
 * A source of GPU use by this host's VMs, for the GPU collector (collectors/gpu.c). Several sources
 * may have data about the same use. The collector queries them in order, so that a source finds the
 * results of earlier sources in the window. All functions run on the collector's thread.
 */
#ifndef VG_COLLECTORS_GPU_SOURCE_H
#define VG_COLLECTORS_GPU_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "base/thread.h"
#include "model/trouble.h"
#include "model/window.h"

typedef struct vg_gpu_source vg_gpu_source;

/* The maximum time that a source waits for an answer. */
#define VG_GPU_AWAITS_NS (3 * VG_NS_PER_S)

struct vg_gpu_source_ops {
    const char *name; /* static */
    /* Returns whether there is anything to measure. Called before each window; if there is
     * nothing, the call is cheap. Failed attempts are retried occasionally. now_ns is
     * CLOCK_MONOTONIC, here and below. */
    bool (*ready)(vg_gpu_source *source, int64_t now_ns);
    /* Takes a sample: called several times per window while the source is ready, when fd() is
     * readable, and immediately before read(). NULL if not needed. */
    void (*sample)(vg_gpu_source *source, int64_t now_ns);
    /* Returns a descriptor. While the source is ready, it becomes readable when take(), or else
     * sample(), must be called soon, because buffers fill up or an answer has arrived. NULL if
     * that never happens. */
    int (*fd)(const vg_gpu_source *source);
    /* Reads answers that have arrived. NULL if the source sends no requests. */
    void (*take)(vg_gpu_source *source, int64_t now_ns);
    /* Sends the requests that read() needs and returns immediately. Called at the end of a window.
     * NULL if the source sends no requests. */
    void (*ask)(vg_gpu_source *source, int64_t now_ns);
    /* Returns the time until which read() should wait for answers, which take() reads, or 0 if
     * none are pending. Waiting makes windows longer. NULL if the source never waits. */
    int64_t (*awaits)(const vg_gpu_source *source);
    /* Adds the known use since the last call to the window. It ends now, or exactly at the
     * window's end_ns if the source can do so. Called while the source is ready. vms: struct
     * vg_proc_vm *, borrowed. */
    void (*read)(vg_gpu_source *source, const GPtrArray *vms, vg_thread *self, int64_t now_ns,
                 struct vg_window *window);
    /* Returns the CPU time that other threads spent for the source between the last two reads.
     * NULL if none do. */
    int64_t (*spent_ns)(const vg_gpu_source *source);
    /* Returns the time before the last window that no window covers, because the provider of the
     * data was unresponsive. NULL if that cannot happen. */
    int64_t (*missed_ns)(const vg_gpu_source *source);
    /* Appends what the source measures, or why it cannot measure. Returns true if it measures less
     * than it should. */
    bool (*describe)(const vg_gpu_source *source, GString *text);
    /* Releases resources of other components, on the collector's thread before it ends. */
    void (*close)(vg_gpu_source *source);
    void (*free)(vg_gpu_source *source);
};

/* Sources embed this as their first member. */
struct vg_gpu_source {
    const struct vg_gpu_source_ops *ops;
    enum vg_trouble trouble; /* the code of the problem that describe() reports */
};

static inline void
vg_gpu_source_free(vg_gpu_source *source)
{
    if (source)
        source->ops->free(source);
}

/* Creates the source that reads what DRM drivers (i915, xe, amdgpu, nouveau, ...) report about
 * QEMU's open files (collectors/gpu-fdinfo.c). It must read other users' processes, which requires
 * CAP_SYS_PTRACE. proc and drm are "/proc" and "/sys/class/drm" except in tests. */
vg_gpu_source *vg_gpu_fdinfo_new(const char *proc, const char *drm);

/* Creates the source that reads NVIDIA GPUs, processes and vGPUs through NVIDIA's library
 * (collectors/gpu-nvml.c). library is passed to dlopen(). retry_ns is as in struct
 * vg_live_options. */
vg_gpu_source *vg_gpu_nvml_new(const char *proc, const char *library, int64_t retry_ns);

/* Creates the source that queries OpenCL proxies about their clients' requests
 * (collectors/gpu-proxy.c). paths: the proxies' control sockets, separated by commas. */
vg_gpu_source *vg_gpu_proxy_new(const char *paths);

/* Creates the source of VMs' render servers, which serve guests that use Venus
 * (collectors/gpu-venus.c). It comes last: it reports their CPU time if no other source has found
 * work of the VM. proc and drm are "/proc" and "/sys/class/drm" except in tests. */
vg_gpu_source *vg_gpu_venus_new(const char *proc, const char *drm);

#endif
