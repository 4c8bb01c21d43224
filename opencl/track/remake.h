/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates the vendors' objects from the recorded data: when the program creates them, and again
 * when they are restored. Each function sets `real` and returns an OpenCL error code.
 */
#ifndef VG_OPENCL_TRACK_REMAKE_H
#define VG_OPENCL_TRACK_REMAKE_H

#include "opencl/track/object.h"

cl_int vg_cl_context_make(struct vg_cl_object *context);

/* Called by the thread that created or re-created a context, afterwards. May be NULL. Must be set
 * while no context exists. */
extern void (*vg_cl_on_context)(void);

cl_int vg_cl_queue_make(struct vg_cl_object *queue);
cl_int vg_cl_sampler_make(struct vg_cl_object *sampler);

/* Creates a memory object. FIRST is the program's initial data. If it IS_BACK, FIRST is NULL, and
 * the contents are written afterwards. */
cl_int vg_cl_mem_make(struct vg_cl_object *mem, void *first, bool is_back);

/* Completes the creation of OBJECT after the vendor returned ERROR. Returns OBJECT, or ends it and
 * returns NULL. */
struct vg_cl_object *vg_cl_made(struct vg_cl_object *object, cl_int error, cl_int *errcode_ret);

#endif
