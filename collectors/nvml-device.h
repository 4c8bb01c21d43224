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

#endif
