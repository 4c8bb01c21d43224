/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory commands, for the code that maps memory.
 */
#ifndef VG_OPENCL_CLIENT_MEMORY_H
#define VG_OPENCL_CLIENT_MEMORY_H

#include "opencl/client/client.h"

/* A region that the program has mapped. */
struct vg_wire_map {
    struct vg_wire_map *next;
    uint64_t number;
    void *pointer;
    struct vg_wire_rows rows;
    cl_map_flags flags;
    uint64_t token; /* of the read that fills the region, if no thread waits for that read */
    bool is_own;    /* `pointer` must be freed */
};

/* Returns the error that the vendor would return for a command that cannot be sent. FORBIDDEN has
 * the memory flags that rule it out. */
cl_int vg_wire_memory_refuse(cl_command_queue queue, cl_mem mem, cl_mem_flags forbidden);

/* The first function returns whether a region of a buffer is empty. In that case, the second
 * performs the read or write: the command waits for other events and has an event, but transfers no
 * data. */
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

/* Attaches ROWS to CALL: through a shared area, directly from the program's memory, or gathered
 * into memory that is returned and must be freed after the call. */
void *vg_wire_memory_put_data(struct vg_wire_call *call, const struct vg_wire_rows *rows);

/* Ends a command that reads ROWS. */
cl_int vg_wire_memory_read(struct vg_wire_call *call, const struct vg_wire_rows *rows,
                           cl_bool blocking, cl_uint n, const cl_event *list, cl_event *event);

/* Ends a command that writes ROWS. */
cl_int vg_wire_memory_write(struct vg_wire_call *call, const struct vg_wire_rows *rows,
                            cl_bool blocking, cl_uint n, const cl_event *list, cl_event *event);

#endif
