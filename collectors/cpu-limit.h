/* SPDX-License-Identifier: Apache-2.0
 *
 * Determines how much of the time that VMs lost is due to their CPU quotas: the throttled time
 * that the kernel reports in cpu.stat of their vCPUs' control groups. One thread.
 */
#ifndef VG_COLLECTORS_CPU_LIMIT_H
#define VG_COLLECTORS_CPU_LIMIT_H

#include "model/window.h"

typedef struct vg_cpu_limits vg_cpu_limits;

/* proc, cgroup: "/proc" and "/sys/fs/cgroup" except in tests; borrowed. */
vg_cpu_limits *vg_cpu_limits_new(const char *proc, const char *cgroup);
void vg_cpu_limits_free(vg_cpu_limits *limits); /* NULL is fine */

/* Moves throttled time to "limit" in the samples of the next window. It is taken first from time
 * lost to idle CPUs, with the preemptions that started it, and the rest from all other holders in
 * proportion. Reads files only for VMs that waited for more than a hundredth of their time, and
 * rarely for VMs that were never throttled. The first reading of a VM only initialises its counter.
 */
void vg_cpu_limits_settle(vg_cpu_limits *limits, struct vg_window *window);

#endif
