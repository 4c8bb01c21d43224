/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands on memory, for those that map it.
 */
#ifndef VG_OPENCL_CLIENT_MEMORY_H
#define VG_OPENCL_CLIENT_MEMORY_H

#include "opencl/client/client.h"

/* A part that the program has mapped. */
struct vg_wire_map {
    struct vg_wire_map *next;
    uint64_t number;
    void *pointer;
    struct vg_wire_rows rows;
    cl_map_flags flags;
    uint64_t token; /* of what is read for it, if that is not waited for */
    bool is_own;    /* `pointer` is freed */
};

/* What the vendor would say of a command that cannot be sent; FORBIDDEN are flags of memory that
 * does not allow it. */
cl_int vg_wire_memory_refuse(cl_command_queue queue, cl_mem mem, cl_mem_flags forbidden);

/* Whether a part of a buffer has no bytes, and does the command that reads or writes it: it waits
 * for others, has an event, and nothing else. */
bool vg_wire_memory_is_nothing(cl_mem buffer, size_t offset, size_t size, const void *ptr);
cl_int vg_wire_memory_do_nothing(cl_command_queue queue, cl_mem buffer, cl_mem_flags forbidden,
                                 cl_bool is_blocking, cl_uint n, const cl_event *list,
                                 cl_event *event);

bool vg_wire_memory_is_inside(cl_mem buffer, size_t offset, size_t size, const void *ptr);
struct vg_wire_rows vg_wire_memory_one_row(const void *at, size_t size);

void vg_wire_memory_put_buffer(struct vg_wire_call *call, cl_command_queue queue, cl_mem buffer,
                               size_t offset, size_t size);
void vg_wire_memory_put_image(struct vg_wire_call *call, cl_command_queue queue, cl_mem image,
                              const size_t *origin, const size_t *region);

/* Has ROWS go with CALL: by way of an area, or from where they are, or gathered, in memory that is
 * returned to be freed after the call. */
void *vg_wire_memory_put_data(struct vg_wire_call *call, const struct vg_wire_rows *rows);

/* The end of a command that reads ROWS. */
cl_int vg_wire_memory_read(struct vg_wire_call *call, const struct vg_wire_rows *rows,
                           cl_bool blocking, cl_uint n, const cl_event *list, cl_event *event);

/* The end of a command that writes ROWS. */
cl_int vg_wire_memory_write(struct vg_wire_call *call, const struct vg_wire_rows *rows,
                            cl_bool blocking, cl_uint n, const cl_event *list, cl_event *event);

#endif
