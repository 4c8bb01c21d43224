/* SPDX-License-Identifier: Apache-2.0
 *
 * The vGPUs of an NVIDIA GPU: their VMs, their use, and their scheduler turns. A vGPU is matched
 * to its VM by the VM's UUID or by the UUID of its mediated device, which is on QEMU's command
 * line. Only the thread that calls the library.
 */
#ifndef VG_COLLECTORS_NVML_VGPU_H
#define VG_COLLECTORS_NVML_VGPU_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "collectors/nvml-log.h"
#include "collectors/nvml.h"
#include "model/window.h"

typedef struct vg_nvml_vgpus vg_nvml_vgpus;

/* Creates the list. nvml is borrowed; address is the device's name in windows. */
vg_nvml_vgpus *vg_nvml_vgpus_new(const struct vg_nvml *nvml, vg_nvml_handle handle,
                                 const char *address, const char *proc);
void vg_nvml_vgpus_free(vg_nvml_vgpus *vgpus);

/* Takes a sample. Returns the library's result if the device is lost, otherwise 0. */
int vg_nvml_vgpus_sample(vg_nvml_vgpus *vgpus, int64_t now_ns, int64_t span_ns);

/* Adds the use since the last call to the window, and queries the current vGPUs. ret: turns of all
 * vGPUs and their duration. Returns as above. */
int vg_nvml_vgpus_read(vg_nvml_vgpus *vgpus, const GPtrArray *vms, int64_t now_ns,
                       struct vg_window *window, struct vg_gpu_sample *ret);

/* Appends to the description of the device. Returns true if something is missing. */
bool vg_nvml_vgpus_describe(const vg_nvml_vgpus *vgpus, GString *text);

#endif
