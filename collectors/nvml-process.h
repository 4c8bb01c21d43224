/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes that use one of NVIDIA's GPUs: those of VMs, and the host's own, which keep VMs
 * waiting as much as VMs do. On a host with vGPUs the driver's process of a vGPU is among the
 * latter. One thread, the one that calls the library.
 */
#ifndef VG_COLLECTORS_NVML_PROCESS_H
#define VG_COLLECTORS_NVML_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "collectors/nvml.h"
#include "model/window.h"

typedef struct vg_nvml_processes vg_nvml_processes;

/* Makes the list; nvml is borrowed, and so is address, the device's in windows. proc is "/proc"
 * except in tests. */
vg_nvml_processes *vg_nvml_processes_new(const struct vg_nvml *nvml, vg_nvml_handle handle,
                                         const char *address, const char *proc);
void vg_nvml_processes_free(vg_nvml_processes *processes);

/* Takes a new sample, which costs the driver 2 to 3 ms of CPU time; none is needed of an idle
 * device. Returns the library's answer if the device is lost, otherwise 0. */
int vg_nvml_processes_sample(vg_nvml_processes *processes, bool idle, int64_t now_ns,
                             int64_t span_ns);

/* Adds the use since the last call to the window, and looks which processes there are now. vms:
 * struct vg_proc_vm *. */
void vg_nvml_processes_read(vg_nvml_processes *processes, const GPtrArray *vms,
                            struct vg_window *window);

/* Appends to the description of the device. */
void vg_nvml_processes_describe(const vg_nvml_processes *processes, GString *text);

#endif
