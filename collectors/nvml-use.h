/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes time of per cent of the recent past, which NVML tells of a device, a process or a vGPU. One
 * thread, the one that calls the library.
 */
#ifndef VG_COLLECTORS_NVML_USE_H
#define VG_COLLECTORS_NVML_USE_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "model/window.h"

enum vg_nvml_engine {
    VG_NVML_SM,     /* a kernel or a shader ran, whatever the part of the GPU that it took */
    VG_NVML_MEM_BW, /* memory was read or written */
    VG_NVML_ENC,
    VG_NVML_DEC,
    VG_NVML_ENGINE_MAX
};

/* The names of engines in windows. */
extern const char *const vg_nvml_engine_names[VG_NVML_ENGINE_MAX];

/* The use that a device, a process or a vGPU makes of the GPU. */
struct vg_nvml_use {
    double percent[VG_NVML_ENGINE_MAX]; /* last heard; -1: unknown */
    int64_t heard_ns;
    double busy_ns[VG_NVML_ENGINE_MAX];
    int64_t span_ns; /* time for which busy_ns is known */
    int64_t memory_bytes;
    int64_t peak_bytes;
    bool known; /* was told for some of the span */
};

/* Something that this device, driver or user cannot have, with the library's answer. */
struct vg_nvml_lack {
    bool lacks;
    int code;
};

/* The newest time of a sample by the library's clock, which may be set back, and may once be
 * nonsense: it is forgotten if nothing new comes for some time. */
struct vg_nvml_news {
    unsigned long long newest;
    int64_t heard_ns;
};

/* Sets that nothing is used, and nothing is known. */
void vg_nvml_use_init(struct vg_nvml_use *use);

/* Counts the time up to now with the percentages that were heard last, or with 0 if nothing was
 * heard for some time. */
void vg_nvml_use_advance(struct vg_nvml_use *use, int64_t now_ns, int64_t span_ns);

/* Returns the time after which the library is to tell samples. */
unsigned long long vg_nvml_news_after(struct vg_nvml_news *news, int64_t now_ns);

/* Tells if a sample of this time is new, and notes it. *last is the time of the one before, of the
 * same user; the same one is often told again. */
bool vg_nvml_news_is_new(struct vg_nvml_news *news, unsigned long long after,
                         unsigned long long time, unsigned long long *last, int64_t now_ns);

/* Appends the mean as time of a window of this length, which the samples fit into by and large, and
 * begins anew. Where no use was told, memory alone is. Returns false if no use was told. */
bool vg_nvml_use_take(struct vg_nvml_use *use, const char *device, int64_t window_ns, GArray *gpus);

#endif
