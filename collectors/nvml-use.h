/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts percentages of the recent past, which NVML reports for a device, a process or a vGPU,
 * into time. Only the thread that calls the library.
 */
#ifndef VG_COLLECTORS_NVML_USE_H
#define VG_COLLECTORS_NVML_USE_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "model/window.h"

enum vg_nvml_engine {
    VG_NVML_SM,     /* a kernel or a shader ran, on any part of the GPU */
    VG_NVML_MEM_BW, /* memory was read or written */
    VG_NVML_ENC,
    VG_NVML_DEC,
    VG_NVML_ENGINE_MAX
};

/* The names of engines in windows. */
extern const char *const vg_nvml_engine_names[VG_NVML_ENGINE_MAX];

/* The GPU use of a device, a process or a vGPU. */
struct vg_nvml_use {
    double percent[VG_NVML_ENGINE_MAX]; /* the last value received; -1 if unknown */
    int64_t heard_ns;
    double busy_ns[VG_NVML_ENGINE_MAX];
    int64_t span_ns; /* duration that busy_ns covers */
    int64_t memory_bytes;
    int64_t peak_bytes;
    bool known; /* was reported for part of the span */
};

/* A feature that this device, driver or user does not support, with the library's result. */
struct vg_nvml_lack {
    bool lacks;
    int code;
};

/* The newest timestamp of a sample by the library's clock. That clock may be set back or return an
 * absurd value, so the timestamp is discarded if nothing newer arrives for some time. */
struct vg_nvml_news {
    unsigned long long newest;
    int64_t heard_ns;
};

/* Sets all use to zero and unknown. */
void vg_nvml_use_init(struct vg_nvml_use *use);

/* Accounts the time until now with the last percentages received, or with 0 if none arrived for
 * some time. */
void vg_nvml_use_advance(struct vg_nvml_use *use, int64_t now_ns, int64_t span_ns);

/* Returns the time after which the library should report samples. */
unsigned long long vg_nvml_news_after(struct vg_nvml_news *news, int64_t now_ns);

/* Returns whether a sample with this time is new, and records it. *last is the time of the same
 * user's previous sample; the library often repeats samples. */
bool vg_nvml_news_is_new(struct vg_nvml_news *news, unsigned long long after,
                         unsigned long long time, unsigned long long *last, int64_t now_ns);

/* Appends the mean use, converted to time in a window of this length, which the samples cover
 * approximately. Then starts over. If no use was reported, appends memory only. Returns false if no
 * use was reported. */
bool vg_nvml_use_take(struct vg_nvml_use *use, const char *device, int64_t window_ns, GArray *gpus);

/* The same for a part of a device: one row for its SMs, with the name of this engine. */
void vg_nvml_use_take_part(struct vg_nvml_use *use, const char *device, const char *engine,
                           int64_t window_ns, GArray *gpus);

#endif
