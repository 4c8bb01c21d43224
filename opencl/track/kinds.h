/* SPDX-License-Identifier: Apache-2.0
 *
 * The declared kinds of a kernel's arguments: numbers, or which kinds of objects.
 */
#ifndef VG_OPENCL_TRACK_KINDS_H
#define VG_OPENCL_TRACK_KINDS_H

#include "opencl/track/object.h"

/* Determines the kind of each argument of KERNEL, which must have its vendor's object and name. If
 * the vendor does not report it, values are checked when they are set, and a number may be
 * mistaken for a handle. */
void vg_cl_kinds_ask(struct vg_cl_object *kernel);

#endif
