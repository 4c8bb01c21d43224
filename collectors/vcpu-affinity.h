/* SPDX-License-Identifier: Apache-2.0
 *
 * The CPUs that VMs may use now, as the kernel says: pinning and cpusets included. One thread.
 */
#ifndef VG_COLLECTORS_VCPU_AFFINITY_H
#define VG_COLLECTORS_VCPU_AFFINITY_H

#include "model/window.h"

/* Sets cpus of each sample to those of its vCPU threads together, in the pid namespace of the
 * caller. A VM of whose threads none is left keeps what it has. */
void vg_vcpu_affinity_read(struct vg_window *window);

#endif
