/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads facts about this machine's GPUs that libvirt does not report: which programs have their
 * device nodes open, and which vGPUs the vendor's driver has created on virtual functions. Any
 * thread. Reads files in sysfs and /proc, including those about the open files of every process.
 */
#ifndef VG_HOST_GPU_LOCAL_H
#define VG_HOST_GPU_LOCAL_H

#include "model/inventory.h"

/* Adds these facts to the GPUs in an inventory of this machine, and to the devices of its VMs. sys
 * and proc are "/sys" and "/proc" except in tests. A GPU that is not in sys is unchanged. */
void vg_gpu_local_put(const char *sys, const char *proc, vg_inventory *inventory);

/* Returns whether a libvirt URI means the libvirt of this machine. */
bool vg_gpu_local_is(const char *libvirt_uri);

#endif
