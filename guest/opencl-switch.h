/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves OpenCL programs from one proxy to another, while the VM stays where it is. Each program
 * changes separately, as soon as it is stopped. A program that cannot run at the new proxy resumes
 * where it was. The agent ensures this (guest/opencl-talk.c) even if this process ends.
 */
#ifndef VG_GUEST_OPENCL_SWITCH_H
#define VG_GUEST_OPENCL_SWITCH_H

#include <stdbool.h>

#include "guest/work.h"

/* Carries out the work's order. Returns 0, or -1 after vg_guest_work_fail(). *ret_undone then
 * states whether the programs that did not move have resumed where they were. */
int vg_opencl_switch(struct vg_guest_work *work, bool *ret_undone);

#endif
