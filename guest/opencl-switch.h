/* SPDX-License-Identifier: Apache-2.0
 *
 * Has programs of OpenCL that compute at a proxy go on at another one, while the VM stays where it
 * is. Each goes by itself, as soon as it stands still, and one that cannot go on there goes on
 * where it was; the agent itself sees to that (guest/opencl-talk.c), should this process end.
 */
#ifndef VG_GUEST_OPENCL_SWITCH_H
#define VG_GUEST_OPENCL_SWITCH_H

#include <stdbool.h>

#include "guest/work.h"

/* Does what the work's order wants. Returns 0, or -1 after vg_guest_work_fail(), with whether those
 * that are not there go on where they were. */
int vg_opencl_switch(struct vg_guest_work *work, bool *ret_undone);

#endif
