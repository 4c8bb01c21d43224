/* SPDX-License-Identifier: Apache-2.0
 *
 * Which part of the time that VMs lost was due to CPU quotas of their own: as much as the kernel
 * tells, in cpu.stat of their vCPUs' control groups, that it kept threads there from running. One
 * thread.
 */
#ifndef VG_COLLECTORS_CPU_LIMIT_H
#define VG_COLLECTORS_CPU_LIMIT_H

#include "model/window.h"

typedef struct vg_cpu_limits vg_cpu_limits;

/* proc, cgroup: "/proc" and "/sys/fs/cgroup" except in tests; borrowed. */
vg_cpu_limits *vg_cpu_limits_new(const char *proc, const char *cgroup);
void vg_cpu_limits_free(vg_cpu_limits *limits); /* NULL is fine */

/* Moves such time to "limit" in the samples of the next window: first what was lost to idle CPUs,
 * with the preemptions that began it, the rest from all others in proportion. Files are read for
 * those VMs only that were kept from CPUs for more than a hundredth of their time, and seldom for
 * those that no quota has stopped yet; the first look at a VM only begins the count. */
void vg_cpu_limits_settle(vg_cpu_limits *limits, struct vg_window *window);

#endif
