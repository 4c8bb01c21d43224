/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the vendor's objects by what is known of them: when the program creates them, and again
 * when they come back. Each function sets `real` and returns an error of OpenCL.
 */
#ifndef VG_OPENCL_TRACK_REMAKE_H
#define VG_OPENCL_TRACK_REMAKE_H

#include "opencl/track/object.h"

cl_int vg_cl_context_make(struct vg_cl_object *context);

/* Called after a context was made, also again, by the thread that made it; NULL: nobody cares. Set
 * while there is no context. */
extern void (*vg_cl_on_context)(void);

cl_int vg_cl_queue_make(struct vg_cl_object *queue);
cl_int vg_cl_sampler_make(struct vg_cl_object *sampler);

/* Makes a memory object. FIRST is what the program gave it to begin with. If it IS_BACK, FIRST is
 * NULL, and what it held is written to it afterwards. */
cl_int vg_cl_mem_make(struct vg_cl_object *mem, void *first, bool is_back);

/* Ends the creation of OBJECT, whose vendor's object was made with ERROR. Returns OBJECT; or ends
 * it and returns NULL. */
struct vg_cl_object *vg_cl_made(struct vg_cl_object *object, cl_int error, cl_int *errcode_ret);

#endif
