/* SPDX-License-Identifier: Apache-2.0
 *
 * What commands on memory have in common, of the proxy's side.
 */
#ifndef VG_OPENCL_SERVE_MEMORY_H
#define VG_OPENCL_SERVE_MEMORY_H

#include "opencl/serve/serve.h"

/* What all these commands have at their end. */
struct vg_serve_command {
    uint64_t token; /* of a read that is not waited for, or whether a write is */
    cl_uint n;
    const cl_event *list;
    uint64_t id;
    cl_event made;
    struct vg_wire_rows rows;
};

void vg_serve_command_begin(struct vg_serve_call *call, struct vg_serve_command *command);
void vg_serve_command_rows(struct vg_serve_command *command, void *at, size_t row, size_t rows,
                           size_t slices);

/* Where the vendor puts its event: a read or write that is not waited for always has one. */
cl_event *vg_serve_command_event(struct vg_serve_command *command, bool is_needed);

/* A part of an image. */
struct vg_serve_part {
    cl_command_queue queue;
    cl_mem image;
    uint64_t id; /* of the image */
    const size_t *origin, *region;
};

void vg_serve_part_begin(struct vg_serve_call *call, struct vg_serve_part *part);

/* How many bytes the elements of a part have. False: it is no image of the client's. */
bool vg_serve_part_rows(struct vg_serve_call *call, const struct vg_serve_part *part,
                        struct vg_serve_command *c);

#endif
