/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPUs that VMs may currently use according to the kernel, including pinning and cpusets. One
 * thread.
 */
#ifndef VG_COLLECTORS_VCPU_AFFINITY_H
#define VG_COLLECTORS_VCPU_AFFINITY_H

#include "model/window.h"

/* Sets cpus of each sample to the union over its vCPU threads, in the caller's pid namespace. A VM
 * whose threads have all ended keeps its value. */
void vg_vcpu_affinity_read(struct vg_window *window);

#endif
