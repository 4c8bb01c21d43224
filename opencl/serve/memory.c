/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/serve/memory.h"

#include <stdlib.h>
#include <string.h>

#include "opencl/icd/entries.h"
#include "opencl/serve/handwritten.h"
#include "opencl/serve/lent.h"
#include "opencl/serve/pinned.h"
#include "opencl/track/callback.h"
#include "opencl/wire/image.h"

#define CL vg_cl_dispatch

/* ---- objects ---- */

static void
memory_put(struct vg_serve_call *call, uint64_t id, cl_mem made, cl_int error)
{
    size_t element = 0;
    cl_mem_object_type type = CL_MEM_OBJECT_BUFFER;

    vg_serve_made(call, id, VG_CL_MEM, made);
    if (error == CL_SUCCESS)
        CL.clGetMemObjectInfo(made, CL_MEM_TYPE, sizeof type, &type, NULL);
    if (error == CL_SUCCESS && type != CL_MEM_OBJECT_BUFFER)
        CL.clGetImageInfo(made, CL_IMAGE_ELEMENT_SIZE, sizeof element, &element, NULL);
    vg_wire_put(&call->out, element);
}

/* Replaces flags: the client's memory is not accessible here, so its present contents are copied.
 * Invalid combinations remain. */
static cl_mem_flags
memory_flags(cl_mem_flags flags)
{
    const cl_mem_flags others = CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR;

    if (!(flags & CL_MEM_USE_HOST_PTR) || (flags & others))
        return flags;
    return (flags & ~(cl_mem_flags)CL_MEM_USE_HOST_PTR) | CL_MEM_COPY_HOST_PTR;
}

/* Returns the data that the vendor reads when it creates an object. The client's memory is not
 * accessible here. If it is needed but was not sent, the object is created without it to check
 * whether the vendor refuses it, and must not be kept. */
static void *
memory_source(const struct vg_serve_call *call, cl_mem_flags *flags, bool has_host,
              bool *is_lacking)
{
    /* Stands for memory that the vendor must not read, because it refuses before. */
    static char nowhere;
    const cl_mem_flags reads = CL_MEM_COPY_HOST_PTR | CL_MEM_USE_HOST_PTR;

    *is_lacking = has_host && (*flags & reads) && !call->head.data;
    if (*is_lacking)
        *flags &= ~reads;
    return call->head.data ? call->data : has_host && !*is_lacking ? &nowhere : NULL;
}

/* Ends the creation of an object without its contents. */
static cl_mem
memory_drop(cl_mem made, cl_int why, cl_int *error)
{
    CL.clReleaseMemObject(made);
    *error = why;
    return NULL;
}

static bool
memory_may_have(struct vg_serve_call *call, uint64_t bytes)
{
    call->why = vg_serve_may_not_have(call->serve, bytes);
    return !call->why;
}

cl_int
vg_serve_CreateBufferWithProperties(struct vg_serve_call *call)
{
    static const cl_mem_properties none;
    cl_mem_flags flags = memory_flags(vg_wire_get(&call->in));
    size_t size = vg_wire_get(&call->in);
    bool has_host = vg_wire_get(&call->in), has_properties = vg_wire_get(&call->in);
    cl_context context = vg_serve_object(call, VG_CL_CONTEXT);
    uint64_t id = vg_serve_new(call);
    cl_int error = CL_SUCCESS;
    bool is_lacking;

    if (call->head.data && call->head.data != size)
        call->in.is_bad = true;
    if (call->in.is_bad)
        return CL_INVALID_VALUE;
    if (!memory_may_have(call, size))
        return CL_MEM_OBJECT_ALLOCATION_FAILURE;
    void *host = memory_source(call, &flags, has_host, &is_lacking);
    cl_mem made = has_properties
                      ? CL.clCreateBufferWithProperties(context, &none, flags, size, host, &error)
                      : CL.clCreateBuffer(context, flags, size, host, &error);
    if (is_lacking && made)
        made = memory_drop(made, CL_INVALID_BUFFER_SIZE, &error);
    memory_put(call, id, made, error);
    return error;
}

cl_int
vg_serve_CreateSubBuffer(struct vg_serve_call *call)
{
    cl_mem_flags flags = vg_wire_get(&call->in);
    cl_buffer_region region = {.origin = vg_wire_get(&call->in)};
    region.size = vg_wire_get(&call->in);
    cl_mem buffer = vg_serve_object(call, VG_CL_MEM);
    uint64_t id = vg_serve_new(call);
    cl_int error = CL_SUCCESS;

    if (call->in.is_bad)
        return CL_INVALID_VALUE;
    cl_mem made =
        CL.clCreateSubBuffer(buffer, flags, CL_BUFFER_CREATE_TYPE_REGION, &region, &error);
    memory_put(call, id, made, error);
    return error;
}

static cl_mem
memory_make_image(cl_context context, bool has_properties, cl_mem_flags flags,
                  const cl_image_format *format, const cl_image_desc *desc, void *host,
                  cl_int *error)
{
    static const cl_mem_properties none;

    return has_properties
               ? CL.clCreateImageWithProperties(context, &none, flags, format, desc, host, error)
               : CL.clCreateImage(context, flags, format, desc, host, error);
}

cl_int
vg_serve_CreateImageWithProperties(struct vg_serve_call *call)
{
    cl_mem_flags flags = memory_flags(vg_wire_get(&call->in));
    bool has_host = vg_wire_get(&call->in), has_properties = vg_wire_get(&call->in);
    cl_context context = vg_serve_object(call, VG_CL_CONTEXT);
    cl_mem parent = vg_serve_object(call, VG_CL_MEM);
    const cl_image_format *format = vg_wire_get_array(&call->in, 1, sizeof *format);
    const void *given = vg_wire_get_array(&call->in, 1, offsetof(cl_image_desc, num_mip_levels));
    uint64_t id = vg_serve_new(call);
    cl_image_desc desc = {.image_type = 0};
    struct vg_wire_rows rows;
    size_t region[3];
    cl_int error = CL_SUCCESS;
    bool is_lacking;

    if (!format || !given)
        call->in.is_bad = true;
    if (call->in.is_bad)
        return CL_INVALID_VALUE;
    memcpy(&desc, given, offsetof(cl_image_desc, num_mip_levels));
    desc.mem_object = parent;
    if (call->head.data) {
        vg_wire_image_region(&desc, region);
        if (!vg_wire_image_rows(&rows, vg_wire_image_element(format), region, 0, 0, false) ||
            vg_wire_rows_size(&rows) != call->head.data)
            call->in.is_bad = true;
        desc.image_row_pitch = 0;
        desc.image_slice_pitch = 0;
    }
    if (call->in.is_bad)
        return CL_INVALID_VALUE;
    if (!memory_may_have(call, call->head.data))
        return CL_MEM_OBJECT_ALLOCATION_FAILURE;
    void *host = memory_source(call, &flags, has_host, &is_lacking);
    cl_mem made = memory_make_image(context, has_properties, flags, format, &desc, host, &error);
    if (is_lacking && made)
        made = memory_drop(made, CL_INVALID_IMAGE_DESCRIPTOR, &error);
    /* The size of an image is known once it exists. */
    if (made && !memory_may_have(call, 0))
        made = memory_drop(made, CL_MEM_OBJECT_ALLOCATION_FAILURE, &error);
    memory_put(call, id, made, error);
    return error;
}

/* ---- reading and writing ---- */

/* The data for a command that does not block. */
struct memory_given {
    struct vg_serve *serve;
    void *data;
    size_t size;
};

static void CL_CALLBACK
memory_free_when(cl_event event, cl_int status, void *data)
{
    struct memory_given *given = data;

    (void)event;
    (void)status;
    vg_serve_free_data(given->serve, given->data, given->size);
    free(given);
}

void
vg_serve_command_begin(struct vg_serve_call *call, struct vg_serve_command *command)
{
    *command = (struct vg_serve_command){.token = vg_wire_get(&call->in)};
    command->n = (cl_uint)vg_wire_get(&call->in);
    command->list = vg_serve_objects(call, VG_CL_EVENT, command->n);
    command->id = vg_serve_new(call);
}

void
vg_serve_command_rows(struct vg_serve_command *command, void *at, size_t row, size_t rows,
                      size_t slices)
{
    command->rows = (struct vg_wire_rows){at, row, rows, slices, row, row * rows};
}

/* Allocates space for data that is read. */
static bool
memory_read_begin(struct vg_serve_call *call, struct vg_serve_command *command,
                  cl_command_queue queue)
{
    size_t size = vg_wire_rows_size(&command->rows);

    if (call->in.is_bad || size == 0)
        return false;
    bool has_room = call->room && call->room_size == size;
    command->rows.at = has_room ? call->room : vg_serve_take_data(call->serve, size);
    vg_serve_pin(call, queue, size);
    return command->rows.at;
}

static cl_int
memory_read_end(struct vg_serve_call *call, struct vg_serve_command *command,
                cl_command_queue queue, cl_int result)
{
    size_t size = vg_wire_rows_size(&command->rows);
    void *bytes = command->rows.at == call->room ? NULL : command->rows.at;

    if (result == CL_SUCCESS && !command->token) {
        call->answer = command->rows.at;
        call->answer_size = size;
        vg_serve_free_data(call->serve, call->data, call->head.data);
        call->data = bytes;
        call->head.data = size;
        vg_serve_lent_done(call);
    } else if (result != CL_SUCCESS ||
               !vg_serve_read_later(call, command->token, command->made, &command->rows, bytes)) {
        if (result == CL_SUCCESS)
            CL.clWaitForEvents(1, &command->made);
        result = result == CL_SUCCESS ? CL_OUT_OF_HOST_MEMORY : result;
        vg_serve_free_data(call->serve, bytes, size);
    }
    vg_serve_made_event(call, command->id, queue, command->made, result);
    return result;
}

cl_event *
vg_serve_command_event(struct vg_serve_command *command, bool is_needed)
{
    return command->id || is_needed ? &command->made : NULL;
}

static bool
memory_write_begin(struct vg_serve_call *call, struct vg_serve_command *command,
                   cl_command_queue queue)
{
    command->rows.at = call->data;
    if (vg_wire_rows_size(&command->rows) != call->head.data || !call->head.data)
        call->in.is_bad = true;
    if (!call->in.is_bad)
        vg_serve_pin(call, queue, call->head.data);
    return !call->in.is_bad;
}

static cl_int
memory_write_end(struct vg_serve_call *call, struct vg_serve_command *command,
                 cl_command_queue queue, cl_int result)
{
    if (result == CL_SUCCESS && !command->token) {
        struct memory_given *given = malloc(sizeof *given);
        if (given)
            *given = (struct memory_given){call->serve, call->data, call->head.data};
        if (given && CL.clSetEventCallback(command->made, CL_COMPLETE, memory_free_when, given) ==
                         CL_SUCCESS) {
            call->data = NULL;
        } else {
            CL.clWaitForEvents(1, &command->made);
            free(given);
        }
    }
    vg_serve_made_event(call, command->id, queue, command->made, result);
    return result;
}

cl_int
vg_serve_EnqueueReadBuffer(struct vg_serve_call *call)
{
    size_t offset = vg_wire_get(&call->in), size = vg_wire_get(&call->in);
    cl_command_queue queue = vg_serve_object(call, VG_CL_QUEUE);
    cl_mem buffer = vg_serve_object(call, VG_CL_MEM);
    struct vg_serve_command c;

    vg_serve_command_begin(call, &c);
    vg_serve_command_rows(&c, NULL, size, 1, 1);
    if (!memory_read_begin(call, &c, queue))
        return CL_OUT_OF_HOST_MEMORY;
    cl_int result = CL.clEnqueueReadBuffer(queue, buffer, !c.token, offset, size, c.rows.at, c.n,
                                           c.list, vg_serve_command_event(&c, c.token));
    return memory_read_end(call, &c, queue, result);
}

cl_int
vg_serve_EnqueueWriteBuffer(struct vg_serve_call *call)
{
    size_t offset = vg_wire_get(&call->in), size = vg_wire_get(&call->in);
    cl_command_queue queue = vg_serve_object(call, VG_CL_QUEUE);
    cl_mem buffer = vg_serve_object(call, VG_CL_MEM);
    struct vg_serve_command c;

    vg_serve_command_begin(call, &c);
    /* The program does not wait for it, and may be about to set the event that blocks it. */
    if ((call->head.flags & VG_WIRE_LATER) && vg_cl_user_events_n > 0)
        c.token = 0;
    vg_serve_command_rows(&c, NULL, size, 1, 1);
    if (!memory_write_begin(call, &c, queue))
        return CL_INVALID_VALUE;
    bool is_lent = c.token && !c.n && !c.id && vg_serve_lent_may(call, queue, size);
    cl_int result =
        CL.clEnqueueWriteBuffer(queue, buffer, c.token && !is_lent, offset, size, c.rows.at, c.n,
                                c.list, vg_serve_command_event(&c, !c.token || is_lent));
    if (result == CL_SUCCESS && is_lent)
        vg_serve_lent_keep(call, queue, c.made);
    else if (result == CL_SUCCESS && c.token)
        vg_serve_lent_done(call);
    return memory_write_end(call, &c, queue, result);
}

struct memory_rect {
    size_t row_pitch, slice_pitch;
    cl_command_queue queue;
    cl_mem buffer;
    const size_t *origin, *region;
};

static void
memory_rect_begin(struct vg_serve_call *call, struct memory_rect *rect, struct vg_serve_command *c)
{
    rect->row_pitch = vg_wire_get(&call->in);
    rect->slice_pitch = vg_wire_get(&call->in);
    rect->queue = vg_serve_object(call, VG_CL_QUEUE);
    rect->buffer = vg_serve_object(call, VG_CL_MEM);
    rect->origin = vg_wire_get_array(&call->in, 3, sizeof *rect->origin);
    rect->region = vg_wire_get_array(&call->in, 3, sizeof *rect->region);
    vg_serve_command_begin(call, c);
    if (!rect->origin || !rect->region)
        call->in.is_bad = true;
    else
        vg_serve_command_rows(c, NULL, rect->region[0], rect->region[1], rect->region[2]);
}

static const size_t memory_zero[3];

cl_int
vg_serve_EnqueueReadBufferRect(struct vg_serve_call *call)
{
    struct memory_rect rect;
    struct vg_serve_command c;

    memory_rect_begin(call, &rect, &c);
    if (!memory_read_begin(call, &c, rect.queue))
        return CL_OUT_OF_HOST_MEMORY;
    cl_int result = CL.clEnqueueReadBufferRect(
        rect.queue, rect.buffer, !c.token, rect.origin, memory_zero, rect.region, rect.row_pitch,
        rect.slice_pitch, c.rows.row_pitch, c.rows.slice_pitch, c.rows.at, c.n, c.list,
        vg_serve_command_event(&c, c.token));
    return memory_read_end(call, &c, rect.queue, result);
}

cl_int
vg_serve_EnqueueWriteBufferRect(struct vg_serve_call *call)
{
    struct memory_rect rect;
    struct vg_serve_command c;

    memory_rect_begin(call, &rect, &c);
    if (!memory_write_begin(call, &c, rect.queue))
        return CL_INVALID_VALUE;
    cl_int result = CL.clEnqueueWriteBufferRect(
        rect.queue, rect.buffer, c.token != 0, rect.origin, memory_zero, rect.region,
        rect.row_pitch, rect.slice_pitch, c.rows.row_pitch, c.rows.slice_pitch, c.rows.at, c.n,
        c.list, vg_serve_command_event(&c, !c.token));
    return memory_write_end(call, &c, rect.queue, result);
}

void
vg_serve_part_begin(struct vg_serve_call *call, struct vg_serve_part *part)
{
    part->queue = vg_serve_object(call, VG_CL_QUEUE);
    part->image = vg_serve_leaving(call, VG_CL_MEM, &part->id);
    part->origin = vg_wire_get_array(&call->in, 3, sizeof *part->origin);
    part->region = vg_wire_get_array(&call->in, 3, sizeof *part->region);
    if (!part->origin || !part->region)
        call->in.is_bad = true;
}

bool
vg_serve_part_rows(struct vg_serve_call *call, const struct vg_serve_part *part,
                   struct vg_serve_command *c)
{
    size_t element = 0, row;

    if (call->in.is_bad || !part->image ||
        CL.clGetImageInfo(part->image, CL_IMAGE_ELEMENT_SIZE, sizeof element, &element, NULL) !=
            CL_SUCCESS ||
        __builtin_mul_overflow(part->region[0], element, &row))
        return false;
    vg_serve_command_rows(c, NULL, row, part->region[1], part->region[2]);
    return true;
}

cl_int
vg_serve_EnqueueReadImage(struct vg_serve_call *call)
{
    struct vg_serve_part part;
    struct vg_serve_command c;

    vg_serve_part_begin(call, &part);
    vg_serve_command_begin(call, &c);
    if (!vg_serve_part_rows(call, &part, &c))
        return CL_INVALID_MEM_OBJECT;
    if (!memory_read_begin(call, &c, part.queue))
        return CL_OUT_OF_HOST_MEMORY;
    cl_int result =
        CL.clEnqueueReadImage(part.queue, part.image, !c.token, part.origin, part.region, 0, 0,
                              c.rows.at, c.n, c.list, vg_serve_command_event(&c, c.token));
    return memory_read_end(call, &c, part.queue, result);
}

cl_int
vg_serve_EnqueueWriteImage(struct vg_serve_call *call)
{
    struct vg_serve_part part;
    struct vg_serve_command c;

    vg_serve_part_begin(call, &part);
    vg_serve_command_begin(call, &c);
    if (!vg_serve_part_rows(call, &part, &c))
        return CL_INVALID_MEM_OBJECT;
    if (!memory_write_begin(call, &c, part.queue))
        return CL_INVALID_VALUE;
    cl_int result =
        CL.clEnqueueWriteImage(part.queue, part.image, c.token != 0, part.origin, part.region, 0, 0,
                               c.rows.at, c.n, c.list, vg_serve_command_event(&c, !c.token));
    return memory_write_end(call, &c, part.queue, result);
}
