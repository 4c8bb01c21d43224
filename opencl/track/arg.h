/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of kernel arguments.
 */
#ifndef VG_OPENCL_TRACK_ARG_H
#define VG_OPENCL_TRACK_ARG_H

#include <string.h>

#include "opencl/track/object.h"

/* Stores SIZE bytes at VALUE, which may be NULL. Returns an OpenCL error code. */
cl_int vg_cl_arg_keep(struct vg_cl_arg *arg, size_t size, const void *value);

/* Returns whether the value uses memory that must be freed. */
static inline bool
vg_cl_arg_is_long(const struct vg_cl_arg *arg)
{
    return arg->is_long;
}

/* Only for an argument whose value is not long. */
static inline void
vg_cl_arg_keep_object(struct vg_cl_arg *arg, struct vg_cl_object *object)
{
    arg->kind = VG_CL_ARG_OBJECT;
    arg->size = sizeof object;
    arg->object = object;
    arg->id = object->id;
}

/* Stores four bytes, the size of most numbers, in an argument that is not long. */
static inline void
vg_cl_arg_keep_number(struct vg_cl_arg *arg, const void *value)
{
    arg->kind = VG_CL_ARG_BYTES;
    arg->size = 4;
    memcpy(arg->small, value, 4);
}

#endif
