/* SPDX-License-Identifier: Apache-2.0
 *
 * One GPU as NVML shows it: how much it is used, by which processes and vGPUs. The library tells
 * per cent of the recent past; sampled several times a window, they are made into time. A GPU that
 * is passed through to a VM is not NVML's at all then. One thread, the one that calls the library.
 */
#ifndef VG_COLLECTORS_NVML_DEVICE_H
#define VG_COLLECTORS_NVML_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "collectors/nvml.h"
#include "model/window.h"

enum vg_nvml_engine {
    VG_NVML_SM,     /* a kernel or a shader ran, whatever the part of the GPU that it took */
    VG_NVML_MEM_BW, /* memory was read or written */
    VG_NVML_ENC,
    VG_NVML_DEC,
    VG_NVML_ENGINE_MAX
};

/* What somebody uses of a device. */
struct vg_nvml_use {
    double percent[VG_NVML_ENGINE_MAX]; /* last heard; -1: unknown */
    int64_t heard_ns;
    double busy_ns[VG_NVML_ENGINE_MAX];
    int64_t span_ns; /* for which busy_ns is known */
    int64_t memory_bytes;
    int64_t peak_bytes;
    bool known; /* was told for some of the span */
};

/* What this device, driver or user cannot have, and the library's answer. */
struct vg_nvml_lack {
    bool lacks;
    int code;
};

/* Times of samples, by the library's clock, which may be set back, and may once be nonsense: the
 * newest is forgotten where nothing new comes for some time. */
struct vg_nvml_news {
    unsigned long long newest;
    int64_t heard_ns;
};

typedef struct vg_nvml_device vg_nvml_device;

/* nvml is borrowed. NULL and *err: it cannot be talked to. */
vg_nvml_device *vg_nvml_device_new(const struct vg_nvml *nvml, unsigned index, const char *proc,
                                   GError **err);
void vg_nvml_device_free(vg_nvml_device *device);

/* Hears what is new. */
void vg_nvml_device_sample(vg_nvml_device *device, int64_t now_ns);

/* Adds what was heard since the last call to the window, and looks who uses the device now. vms:
 * struct vg_proc_vm *. */
void vg_nvml_device_read(vg_nvml_device *device, const GPtrArray *vms, int64_t now_ns,
                         struct vg_window *window);

/* Does it not answer any more? */
bool vg_nvml_device_is_lost(const vg_nvml_device *device);

/* As struct vg_gpu_source_ops has it. */
bool vg_nvml_device_describe(const vg_nvml_device *device, GString *text);

/* ---- for collectors/nvml-process.c, nvml-vgpu.c ---- */

/* Nothing is used, and nothing is known. */
void vg_nvml_use_init(struct vg_nvml_use *use);

/* The time up to now passed with what was heard last. Of what is not heard of any more for some
 * time it is nothing. */
void vg_nvml_use_advance(struct vg_nvml_use *use, int64_t now_ns, int64_t span_ns);

/* What the library is to be asked after. */
unsigned long long vg_nvml_news_after(struct vg_nvml_news *news, int64_t now_ns);

/* Is a sample of this time new? *last is the time of the one before, of the same user; the same one
 * is often told again. */
bool vg_nvml_news_is_new(struct vg_nvml_news *news, unsigned long long after,
                         unsigned long long time, unsigned long long *last, int64_t now_ns);

/* Appends the mean as time of a window of this length, which the samples fit into by and large, and
 * begins anew. false: nothing was told. */
bool vg_nvml_use_take(struct vg_nvml_use *use, const char *device, int64_t window_ns, GArray *gpus);

#endif
