/* SPDX-License-Identifier: Apache-2.0
 *
 * Definitions shared by memory commands at the proxy's side.
 */
#ifndef VG_OPENCL_SERVE_MEMORY_H
#define VG_OPENCL_SERVE_MEMORY_H

#include "opencl/serve/serve.h"

/* Data that all memory commands need at their end. */
struct vg_serve_command {
    uint64_t
        token; /* of a read that is not waited for; of a write, nonzero if it is not waited for */
    cl_uint n;
    const cl_event *list;
    uint64_t id;
    cl_event made;
    struct vg_wire_rows rows;
};

void vg_serve_command_begin(struct vg_serve_call *call, struct vg_serve_command *command);
void vg_serve_command_rows(struct vg_serve_command *command, void *at, size_t row, size_t rows,
                           size_t slices);

/* Returns where the vendor stores the command's event, or NULL. A read or write that is not waited
 * for always has an event. */
cl_event *vg_serve_command_event(struct vg_serve_command *command, bool is_needed);

/* A region of an image. */
struct vg_serve_part {
    cl_command_queue queue;
    cl_mem image;
    uint64_t id; /* of the image */
    const size_t *origin, *region;
};

void vg_serve_part_begin(struct vg_serve_call *call, struct vg_serve_part *part);

/* Computes the rows of a region. Returns false if the image is not the client's. */
bool vg_serve_part_rows(struct vg_serve_call *call, const struct vg_serve_part *part,
                        struct vg_serve_command *c);

#endif
