/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the use of GPUs by this host's VMs is read from, for the collector of it
 * (collectors/gpu.c). Several sources may see something at the same time; they are asked in the
 * order in which the collector has them, so that a later one finds in the window what the others
 * told. Everything happens on the collector's thread.
 */
#ifndef VG_COLLECTORS_GPU_SOURCE_H
#define VG_COLLECTORS_GPU_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "base/thread.h"
#include "model/window.h"

typedef struct vg_gpu_source vg_gpu_source;

struct vg_gpu_source_ops {
    const char *name; /* static */
    /* Is there anything here that it could see? Asked before each window; where there is not, this
     * costs next to nothing. What failed is tried again now and then. now_ns is CLOCK_MONOTONIC,
     * here and below. */
    bool (*ready)(vg_gpu_source *source, int64_t now_ns);
    /* While it is ready: several times in a window, when fd() is readable, and right before read().
     * NULL: not needed. */
    void (*sample)(vg_gpu_source *source, int64_t now_ns);
    /* While it is ready: readable when sample() must be called soon, for what happens is kept in
     * memory that fills up. NULL: it never has to. */
    int (*fd)(const vg_gpu_source *source);
    /* While it is ready: adds to the window what was used since the last call, or for as much of
     * that as is known, up to now, or up to end_ns of the window if it can be that exact. vms:
     * struct vg_proc_vm *, borrowed. */
    void (*read)(vg_gpu_source *source, const GPtrArray *vms, vg_thread *self, int64_t now_ns,
                 struct vg_window *window);
    /* CPU time that others than this thread spent for it up to the last read(), since that before.
     * NULL: none. */
    int64_t (*spent_ns)(const vg_gpu_source *source);
    /* Appends what it sees, or why it sees nothing. true: that is less than it should be. */
    bool (*describe)(const vg_gpu_source *source, GString *text);
    /* Lets go of what it holds of others, on the collector's thread, before that ends. */
    void (*close)(vg_gpu_source *source);
    void (*free)(vg_gpu_source *source);
};

/* Sources embed this as their first member. */
struct vg_gpu_source {
    const struct vg_gpu_source_ops *ops;
};

static inline void
vg_gpu_source_free(vg_gpu_source *source)
{
    if (source)
        source->ops->free(source);
}

/* collectors/gpu-fdinfo.c: what DRM drivers (i915, xe, amdgpu, nouveau, ...) tell of the files that
 * QEMU has open. Needs to look at processes of others, which is CAP_SYS_PTRACE. proc and drm are
 * "/proc" and "/sys/class/drm" but in tests. */
vg_gpu_source *vg_gpu_fdinfo_new(const char *proc, const char *drm);

/* collectors/gpu-nvml.c: what NVIDIA's library tells of its GPUs, processes and vGPUs. library is
 * what dlopen() takes; retry_ns as in struct vg_live_options. */
vg_gpu_source *vg_gpu_nvml_new(const char *proc, const char *library, int64_t retry_ns);

#endif
