/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads what memory objects hold. While it does, no other thread is inside of the gate.
 */
#ifndef VG_OPENCL_TRACK_READ_H
#define VG_OPENCL_TRACK_READ_H

#include "opencl/track/extract.h"

/* The size in bytes of what is read of MEM, and the region of it if it is an image. 0: nothing is
 * read, as another object or the program's own memory holds it, or nobody wrote to it. */
size_t vg_cl_content_size(const struct vg_cl_object *mem, size_t region[3]);

/* A queue of our own in one context at a time, for copies; all zero to begin with. */
struct vg_cl_copier {
    const cl_icd_dispatch *cl;
    struct vg_cl_object *context;
    cl_command_queue queue; /* to be released at the end; NULL: there was no need of one */
};

/* Has COPIER's queue in the context of MEM. Returns false if there can be none. */
bool vg_cl_copier_get(struct vg_cl_copier *copier, const struct vg_cl_object *mem);

/* Reads SIZE bytes, which are what vg_cl_content_size() says with REGION, TO memory of the caller.
 * An image is read at once. */
bool vg_cl_read_content(struct vg_cl_switch *s, const struct vg_cl_copier *copier,
                        const struct vg_cl_object *mem, const size_t *region, size_t size,
                        unsigned char *to);

/* Brings what the device has of MEM into the memory that it uses, but for what the program has
 * mapped for writing. */
bool vg_cl_read_back(struct vg_cl_switch *s, const struct vg_cl_copier *copier,
                     const struct vg_cl_object *mem);

#endif
