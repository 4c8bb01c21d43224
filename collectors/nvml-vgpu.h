/* SPDX-License-Identifier: Apache-2.0
 *
 * The vGPUs of one of NVIDIA's GPUs: whose they are, what they use, and how the scheduler lets them
 * take turns. The vGPU of a VM is found by the UUID of the VM, else by that of its mediated device,
 * which the command line of QEMU has. One thread, the one that calls the library.
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

/* nvml is borrowed; address is the device's in windows. */
vg_nvml_vgpus *vg_nvml_vgpus_new(const struct vg_nvml *nvml, vg_nvml_handle handle,
                                 const char *address, const char *proc);
void vg_nvml_vgpus_free(vg_nvml_vgpus *vgpus);

/* Hears what is new. The code is what the library answered where the device is lost, else 0. */
int vg_nvml_vgpus_sample(vg_nvml_vgpus *vgpus, int64_t now_ns, int64_t span_ns);

/* Adds what was heard since the last call to the window, and looks which vGPUs there are now. ret:
 * turns of all of them, and the time that they took. The code as above. */
int vg_nvml_vgpus_read(vg_nvml_vgpus *vgpus, const GPtrArray *vms, int64_t now_ns,
                       struct vg_window *window, struct vg_gpu_sample *ret);

/* Appends to what is said of the device. true: something is missing. */
bool vg_nvml_vgpus_describe(const vg_nvml_vgpus *vgpus, GString *text);

#endif
