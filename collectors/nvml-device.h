/* SPDX-License-Identifier: Apache-2.0
 *
 * A GPU in NVML: its use, by processes and vGPUs. The library reports percentages of the recent
 * past. Several samples per window are converted into time. NVML does not show a GPU that is
 * passed through to a VM. Only the thread that calls the library.
 */
#ifndef VG_COLLECTORS_NVML_DEVICE_H
#define VG_COLLECTORS_NVML_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "collectors/nvml.h"
#include "model/window.h"

typedef struct vg_nvml_device vg_nvml_device;

/* Creates a device; nvml is borrowed. Returns NULL and *err if the device cannot be queried. */
vg_nvml_device *vg_nvml_device_new(const struct vg_nvml *nvml, unsigned index, const char *proc,
                                   GError **err);
void vg_nvml_device_free(vg_nvml_device *device);

/* Takes a sample. */
void vg_nvml_device_sample(vg_nvml_device *device, int64_t now_ns);

/* Adds the use since the last call to the window, and queries which processes use the device now.
 * vms: struct vg_proc_vm *. */
void vg_nvml_device_read(vg_nvml_device *device, const GPtrArray *vms, int64_t now_ns,
                         struct vg_window *window);

/* Returns whether the device has stopped responding. */
bool vg_nvml_device_is_lost(const vg_nvml_device *device);

/* Describes the device for describe() of struct vg_gpu_source_ops. */
bool vg_nvml_device_describe(const vg_nvml_device *device, GString *text);

#endif
