/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes that use an NVIDIA GPU: those of VMs, and the host's own, which delay VMs just as
 * VMs do. On a host with vGPUs, the latter include the driver's process for a vGPU. Only the
 * thread that calls the library.
 */
#ifndef VG_COLLECTORS_NVML_PROCESS_H
#define VG_COLLECTORS_NVML_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "collectors/nvml.h"
#include "model/window.h"

typedef struct vg_nvml_processes vg_nvml_processes;

/* Creates the list. nvml is borrowed, and so is address, the device's name in windows. proc is
 * "/proc" except in tests. */
vg_nvml_processes *vg_nvml_processes_new(const struct vg_nvml *nvml, vg_nvml_handle handle,
                                         const char *address, const char *proc);
void vg_nvml_processes_free(vg_nvml_processes *processes);

/* Takes a sample, which costs the driver 2 to 3 ms of CPU time. An idle device needs no sample.
 * Returns the library's result if the device is lost, otherwise 0. */
int vg_nvml_processes_sample(vg_nvml_processes *processes, bool idle, int64_t now_ns,
                             int64_t span_ns);

/* Adds the use since the last call to the window, and queries the current processes. vms: struct
 * vg_proc_vm *. */
void vg_nvml_processes_read(vg_nvml_processes *processes, const GPtrArray *vms,
                            struct vg_window *window);

/* Appends to the description of the device. */
void vg_nvml_processes_describe(const vg_nvml_processes *processes, GString *text);

#endif
