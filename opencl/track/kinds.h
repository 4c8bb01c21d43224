/* SPDX-License-Identifier: Apache-2.0
 *
 * What a kernel's arguments are by their declarations: numbers, or objects of which kinds.
 */
#ifndef VG_OPENCL_TRACK_KINDS_H
#define VG_OPENCL_TRACK_KINDS_H

#include "opencl/track/object.h"

/* Notes it for each argument of KERNEL, whose vendor's object and name are there. Where nobody
 * tells, a value is looked at when it is set, and may be taken for a handle. */
void vg_cl_kinds_ask(struct vg_cl_object *kernel);

#endif
