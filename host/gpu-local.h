/* SPDX-License-Identifier: Apache-2.0
 *
 * What libvirt does not tell of this machine's GPUs: which programs have their device nodes open,
 * and which vGPUs the vendor's driver has made of virtual functions. Any thread; reads files of
 * sysfs and /proc, of every process those of its open files.
 */
#ifndef VG_HOST_GPU_LOCAL_H
#define VG_HOST_GPU_LOCAL_H

#include "model/inventory.h"

/* Puts it into the GPUs of an inventory of this machine, and what follows for the devices of its
 * VMs. sys and proc are "/sys" and "/proc" but in tests. A GPU that is not in sys stays as it is.
 */
void vg_gpu_local_put(const char *sys, const char *proc, vg_inventory *inventory);

/* Whether a libvirt URI means the libvirt of this machine. */
bool vg_gpu_local_is(const char *libvirt_uri);

#endif
