/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the memory shared by a client and its process known to the vendor, so that the vendor may
 * pin it. To this end, a buffer covers the part of that memory that is used first
 * (CL_MEM_USE_HOST_PTR). Copies to and from it then need no intermediate copy in the vendor's
 * library.
 *
 * No command ever uses the buffer, so it never writes to the memory, whatever the client has
 * there. The buffer belongs to one of the client's contexts at a time and is released before that
 * context.
 */
#ifndef VG_OPENCL_SERVE_PINNED_H
#define VG_OPENCL_SERVE_PINNED_H

#include "opencl/serve/serve.h"

struct vg_serve_pinned {
    const cl_icd_dispatch *cl; /* the vendor's */
    cl_mem buffer;             /* the vendor's; NULL if there is no buffer */
    const void *context;       /* the context that it belongs to */
    const void *left;          /* a context that the client has released; it gets no buffer */
    bool is_refused;           /* the vendor refused the buffer; it is not tried again */
    bool is_leaving;           /* release the context as soon as no area is in use */
    atomic_uint n_areas;       /* areas that a command may read or write */
};

/* Called when a command in QUEUE copies SIZE bytes from or to the area of CALL, if it has any. */
void vg_serve_pin(const struct vg_serve_call *call, cl_command_queue queue, size_t size);

/* Called when the client releases or has created CONTEXT. */
void vg_serve_pinned_leave(struct vg_serve *serve, cl_context context);
void vg_serve_pinned_come(struct vg_serve *serve, cl_context context);

/* Called before each message: performs work that had to be postponed. */
void vg_serve_pinned_look(struct vg_serve *serve);

/* An area is in use from the arrival of its message until its data are copied. The end may be
 * called by any thread, everything else only by the receiving thread. */
void vg_serve_area_begin(struct vg_serve *serve);
void vg_serve_area_end(struct vg_serve *serve);

#endif
