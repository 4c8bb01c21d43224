/* SPDX-License-Identifier: Apache-2.0
 *
 * One GPU as NVML shows it: how much it is used, and by which processes and vGPUs. The library
 * tells per cent of the recent past; several samples per window are made into time. NVML does not
 * show a GPU that is passed through to a VM. One thread, the one that calls the library.
 */
#ifndef VG_COLLECTORS_NVML_DEVICE_H
#define VG_COLLECTORS_NVML_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "collectors/nvml.h"
#include "model/window.h"

typedef struct vg_nvml_device vg_nvml_device;

/* Makes a device; nvml is borrowed. NULL and *err: it cannot be talked to. */
vg_nvml_device *vg_nvml_device_new(const struct vg_nvml *nvml, unsigned index, const char *proc,
                                   GError **err);
void vg_nvml_device_free(vg_nvml_device *device);

/* Takes a new sample. */
void vg_nvml_device_sample(vg_nvml_device *device, int64_t now_ns);

/* Adds the use since the last call to the window, and looks who uses the device now. vms: struct
 * vg_proc_vm *. */
void vg_nvml_device_read(vg_nvml_device *device, const GPtrArray *vms, int64_t now_ns,
                         struct vg_window *window);

/* Tells if the device does not answer any more. */
bool vg_nvml_device_is_lost(const vg_nvml_device *device);

/* Describes the device as struct vg_gpu_source_ops wants it. */
bool vg_nvml_device_describe(const vg_nvml_device *device, GString *text);

#endif
