/* SPDX-License-Identifier: Apache-2.0
 *
 * The vGPUs of one of NVIDIA's GPUs: their VMs, their use, and the turns that the scheduler gives
 * them. The vGPU of a VM is found by the UUID of the VM, or by that of its mediated device, which
 * is on the command line of QEMU. One thread, the one that calls the library.
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

/* Makes the list; nvml is borrowed; address is the device's in windows. */
vg_nvml_vgpus *vg_nvml_vgpus_new(const struct vg_nvml *nvml, vg_nvml_handle handle,
                                 const char *address, const char *proc);
void vg_nvml_vgpus_free(vg_nvml_vgpus *vgpus);

/* Takes a new sample. Returns the library's answer if the device is lost, otherwise 0. */
int vg_nvml_vgpus_sample(vg_nvml_vgpus *vgpus, int64_t now_ns, int64_t span_ns);

/* Adds the use since the last call to the window, and looks which vGPUs there are now. ret: turns
 * of all of them, and their time. Returns as above. */
int vg_nvml_vgpus_read(vg_nvml_vgpus *vgpus, const GPtrArray *vms, int64_t now_ns,
                       struct vg_window *window, struct vg_gpu_sample *ret);

/* Appends to the description of the device. Returns true if something is missing. */
bool vg_nvml_vgpus_describe(const vg_nvml_vgpus *vgpus, GString *text);

#endif
