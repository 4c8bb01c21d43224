/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory that a client and its process have in common, for the vendor: a buffer lies over the
 * part of it that is used first (CL_MEM_USE_HOST_PTR), so that the vendor knows it, and may have
 * it pinned. Copies from there and to there then need no copy of the vendor's own in between.
 *
 * The buffer is made, and no command ever has it: nothing is written to the memory for it, whatever
 * the client has there. It belongs to one context of the client's at a time, and goes before that.
 */
#ifndef VG_OPENCL_SERVE_PINNED_H
#define VG_OPENCL_SERVE_PINNED_H

#include "opencl/serve/serve.h"

struct vg_serve_pinned {
    const cl_icd_dispatch *cl; /* the vendor's */
    cl_mem buffer;             /* likewise; NULL: there is none */
    const void *context;       /* whose it is */
    const void *left;          /* a context that the client has released, which gets none */
    bool is_refused;           /* by the vendor, and not tried again */
    bool is_leaving;           /* its context is released as soon as no area is in use */
    atomic_uint n_areas;       /* that a command may read or write */
};

/* A command of QUEUE copies SIZE bytes from or to the area of CALL, if it has any. */
void vg_serve_pin(const struct vg_serve_call *call, cl_command_queue queue, size_t size);

/* The client releases CONTEXT, or has made it. */
void vg_serve_pinned_leave(struct vg_serve *serve, cl_context context);
void vg_serve_pinned_come(struct vg_serve *serve, cl_context context);

/* Before each message: does what could not be done yet. */
void vg_serve_pinned_look(struct vg_serve *serve);

/* An area is in use from when its message comes until its data are copied. The end may come from
 * any thread; all else is for the one that receives. */
void vg_serve_area_begin(struct vg_serve *serve);
void vg_serve_area_end(struct vg_serve *serve);

#endif
