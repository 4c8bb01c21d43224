/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the contents of memory objects. No other thread may be inside the gate.
 */
#ifndef VG_OPENCL_TRACK_READ_H
#define VG_OPENCL_TRACK_READ_H

#include "opencl/track/extract.h"

/* Returns the number of bytes to read from MEM and, for an image, their region. Returns 0 if
 * nothing must be read: another object or the program's own memory has the contents, or they were
 * never written. */
size_t vg_cl_content_size(const struct vg_cl_object *mem, size_t region[3]);

/* A private queue for copies, in one context at a time. Initialise with zeros. */
struct vg_cl_copier {
    const cl_icd_dispatch *cl;
    struct vg_cl_object *context;
    cl_command_queue queue; /* to be released at the end; NULL if none was needed */
};

/* Moves COPIER's queue to the context of MEM. Returns false if it cannot be created. */
bool vg_cl_copier_get(struct vg_cl_copier *copier, const struct vg_cl_object *mem);

/* Reads SIZE bytes of MEM to TO, which is the caller's. SIZE and REGION come from
 * vg_cl_content_size(). An image is read in a single command. */
bool vg_cl_read_content(struct vg_cl_switch *s, const struct vg_cl_copier *copier,
                        const struct vg_cl_object *mem, const size_t *region, size_t size,
                        unsigned char *to);

/* Copies MEM from the device to the host memory that it uses, except for regions that the program
 * has mapped for writing. */
bool vg_cl_read_back(struct vg_cl_switch *s, const struct vg_cl_copier *copier,
                     const struct vg_cl_object *mem);

#endif
