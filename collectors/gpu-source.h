/* SPDX-License-Identifier: Apache-2.0
 *
 * A source of the use of GPUs by this host's VMs, for the collector of that (collectors/gpu.c).
 * Several sources may see something at the same time; the collector asks them in its order, so that
 * a later one finds in the window what earlier ones told. Everything happens on the collector's
 * thread.
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

/* A source waits for an answer for this long at most. */
#define VG_GPU_AWAITS_NS (3 * VG_NS_PER_S)

struct vg_gpu_source_ops {
    const char *name; /* static */
    /* Tells if there is anything that it could see. Asked before each window; where there is
     * nothing, this costs next to nothing. Failed attempts are repeated now and then. now_ns is
     * CLOCK_MONOTONIC, here and below. */
    bool (*ready)(vg_gpu_source *source, int64_t now_ns);
    /* Samples: called several times in a window while it is ready, when fd() is readable, and right
     * before read(). NULL: not needed. */
    void (*sample)(vg_gpu_source *source, int64_t now_ns);
    /* Returns a descriptor that is readable, while the source is ready, when take(), or else
     * sample(), must be called soon, because memory fills up, or an answer has come. NULL: that
     * never happens. */
    int (*fd)(const vg_gpu_source *source);
    /* Takes answers that have come. NULL: it asks nobody. */
    void (*take)(vg_gpu_source *source, int64_t now_ns);
    /* Asks others what read() is to tell, and returns at once: called when a window ends. NULL: it
     * asks nobody. */
    void (*ask)(vg_gpu_source *source, int64_t now_ns);
    /* Returns until when read() should wait for answers, which take() takes; 0: there is nothing
     * to wait for. What is read later makes windows longer. NULL: it never waits. */
    int64_t (*awaits)(const vg_gpu_source *source);
    /* Adds to the window the use since the last call, as far as it is known, up to now, or exactly
     * to end_ns of the window if it can. Called while it is ready. vms: struct vg_proc_vm *,
     * borrowed. */
    void (*read)(vg_gpu_source *source, const GPtrArray *vms, vg_thread *self, int64_t now_ns,
                 struct vg_window *window);
    /* Returns the CPU time that others than this thread spent for it between the last two reads.
     * NULL: none. */
    int64_t (*spent_ns)(const vg_gpu_source *source);
    /* Returns the time before the window that was read last of which its figures are in no window:
     * what it reads was silent. NULL: there is none. */
    int64_t (*missed_ns)(const vg_gpu_source *source);
    /* Appends what it sees, or why it sees nothing. Returns true if that is less than it should
     * be. */
    bool (*describe)(const vg_gpu_source *source, GString *text);
    /* Releases what belongs to others, on the collector's thread, before that ends. */
    void (*close)(vg_gpu_source *source);
    void (*free)(vg_gpu_source *source);
};

/* Sources embed this as their first member. */
struct vg_gpu_source {
    const struct vg_gpu_source_ops *ops;
    enum vg_trouble trouble; /* the code of what describe() says is missing */
};

static inline void
vg_gpu_source_free(vg_gpu_source *source)
{
    if (source)
        source->ops->free(source);
}

/* Makes the source of what DRM drivers (i915, xe, amdgpu, nouveau, ...) tell of the files that QEMU
 * has open (collectors/gpu-fdinfo.c). It needs to look at processes of others, which is
 * CAP_SYS_PTRACE. proc and drm are "/proc" and "/sys/class/drm" except in tests. */
vg_gpu_source *vg_gpu_fdinfo_new(const char *proc, const char *drm);

/* Makes the source of what NVIDIA's library tells of its GPUs, processes and vGPUs
 * (collectors/gpu-nvml.c). library is what dlopen() takes; retry_ns as in struct
 * vg_live_options. */
vg_gpu_source *vg_gpu_nvml_new(const char *proc, const char *library, int64_t retry_ns);

/* Makes the source of what proxies of OpenCL tell of the requests of their clients
 * (collectors/gpu-proxy.c). paths: of the sockets where they are asked, separated by commas. */
vg_gpu_source *vg_gpu_proxy_new(const char *paths);

/* Makes the source of the render servers of VMs, which serve guests that use Venus
 * (collectors/gpu-venus.c). It is the last one: it tells of their CPU time where no other one knows
 * of work of the VM. proc and drm are "/proc" and "/sys/class/drm" except in tests. */
vg_gpu_source *vg_gpu_venus_new(const char *proc, const char *drm);

#endif
