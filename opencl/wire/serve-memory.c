/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "opencl/icd/entries.h"
#include "opencl/wire/image.h"
#include "opencl/wire/serve-hand.h"

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

/* The client's memory is not here: what it holds now is copied. Combinations that are none stay. */
static cl_mem_flags
memory_flags(cl_mem_flags flags)
{
    const cl_mem_flags others = CL_MEM_ALLOC_HOST_PTR | CL_MEM_COPY_HOST_PTR;

    if (!(flags & CL_MEM_USE_HOST_PTR) || (flags & others))
        return flags;
    return (flags & ~(cl_mem_flags)CL_MEM_USE_HOST_PTR) | CL_MEM_COPY_HOST_PTR;
}

/* What stands for memory of the client that the vendor must not read: it refuses before. */
static char memory_nowhere;

cl_int
vg_serve_CreateBufferWithProperties(struct vg_serve_call *call)
{
    static const cl_mem_properties none;
    cl_mem_flags flags = memory_flags(vg_wire_get(&call->in));
    size_t size = vg_wire_get(&call->in);
    bool has_host = vg_wire_get(&call->in), has_properties = vg_wire_get(&call->in);
    cl_context context = vg_serve_object(call, VG_CL_CONTEXT);
    uint64_t id = vg_serve_new(call);
    const cl_mem_flags reads = CL_MEM_COPY_HOST_PTR | CL_MEM_USE_HOST_PTR;
    cl_int error = CL_SUCCESS;

    if (call->head.data && call->head.data != size)
        call->in.is_bad = true;
    if (call->in.is_bad)
        return CL_INVALID_VALUE;
    if (!vg_serve_may_have(call->serve, size))
        return CL_MEM_OBJECT_ALLOCATION_FAILURE;
    bool is_lacking = has_host && (flags & reads) && !call->head.data;
    void *host = call->head.data ? call->data : has_host ? &memory_nowhere : NULL;
    if (is_lacking)
        flags &= ~reads, host = NULL;
    cl_mem made = has_properties
                      ? CL.clCreateBufferWithProperties(context, &none, flags, size, host, &error)
                      : CL.clCreateBuffer(context, flags, size, host, &error);
    if (is_lacking && made) {
        CL.clReleaseMemObject(made);
        made = NULL;
        error = CL_INVALID_BUFFER_SIZE;
    }
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
    const cl_mem_flags reads = CL_MEM_COPY_HOST_PTR | CL_MEM_USE_HOST_PTR;
    cl_image_desc desc = {.image_type = 0};
    struct vg_wire_rows rows;
    size_t region[3];
    cl_int error = CL_SUCCESS;

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
    if (!vg_serve_may_have(call->serve, call->head.data))
        return CL_MEM_OBJECT_ALLOCATION_FAILURE;
    bool is_lacking = has_host && (flags & reads) && !call->head.data;
    void *host = call->head.data ? call->data : has_host ? &memory_nowhere : NULL;
    if (is_lacking)
        flags &= ~reads, host = NULL;
    cl_mem made = memory_make_image(context, has_properties, flags, format, &desc, host, &error);
    if (is_lacking && made) {
        CL.clReleaseMemObject(made);
        made = NULL;
        error = CL_INVALID_IMAGE_DESCRIPTOR;
    }
    /* What an image takes is known when it is there. */
    if (made && !vg_serve_may_have(call->serve, 0)) {
        CL.clReleaseMemObject(made);
        made = NULL;
        error = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    }
    memory_put(call, id, made, error);
    return error;
}

/* ---- reading and writing ---- */

/* Data that a command reads which is not waited for. */
struct memory_given {
    struct vg_serve *serve;
    void *data;
};

static void CL_CALLBACK
memory_free_when(cl_event event, cl_int status, void *data)
{
    struct memory_given *given = data;

    (void)event;
    (void)status;
    vg_serve_free_data(given->serve, given->data);
    free(given);
}

/* What all these commands have at their end. */
struct memory_command {
    uint64_t token; /* of a read that is not waited for, or whether a write is */
    cl_uint n;
    const cl_event *list;
    uint64_t id;
    cl_event made;
    struct vg_wire_rows rows;
};

static void
memory_command_begin(struct vg_serve_call *call, struct memory_command *command)
{
    *command = (struct memory_command){.token = vg_wire_get(&call->in)};
    command->n = (cl_uint)vg_wire_get(&call->in);
    command->list = vg_serve_objects(call, VG_CL_EVENT, command->n);
    command->id = vg_serve_new(call);
}

static void
memory_set_rows(struct memory_command *command, void *at, size_t row, size_t rows, size_t slices)
{
    command->rows = (struct vg_wire_rows){at, row, rows, slices, row, row * rows};
}

/* Room for what is read. */
static bool
memory_read_begin(struct vg_serve_call *call, struct memory_command *command)
{
    size_t size = vg_wire_rows_size(&command->rows);

    if (call->in.is_bad || size == 0)
        return false;
    command->rows.at = call->room && call->room_size == size ? call->room : malloc(size);
    return command->rows.at;
}

static cl_int
memory_read_end(struct vg_serve_call *call, struct memory_command *command, cl_command_queue queue,
                cl_int result)
{
    size_t size = vg_wire_rows_size(&command->rows);
    void *bytes = command->rows.at == call->room ? NULL : command->rows.at;

    if (result == CL_SUCCESS && !command->token) {
        call->answer = command->rows.at;
        call->answer_size = size;
        call->owned[call->n_owned++] = bytes;
    } else if (result != CL_SUCCESS ||
               !vg_serve_read_later(call, command->token, command->made, &command->rows, bytes)) {
        if (result == CL_SUCCESS)
            CL.clWaitForEvents(1, &command->made);
        result = result == CL_SUCCESS ? CL_OUT_OF_HOST_MEMORY : result;
        free(bytes);
    }
    if (command->made && !command->id)
        CL.clReleaseEvent(command->made);
    vg_serve_made_event(call, command->id, queue, command->made, result);
    return result;
}

/* Where the vendor puts its event: a read or write that is not waited for always has one. */
static cl_event *
memory_event(struct memory_command *command, bool is_needed)
{
    return command->id || is_needed ? &command->made : NULL;
}

static bool
memory_write_begin(struct vg_serve_call *call, struct memory_command *command)
{
    command->rows.at = call->data;
    if (vg_wire_rows_size(&command->rows) != call->head.data || !call->head.data)
        call->in.is_bad = true;
    return !call->in.is_bad;
}

static cl_int
memory_write_end(struct vg_serve_call *call, struct memory_command *command, cl_command_queue queue,
                 cl_int result)
{
    if (result == CL_SUCCESS && !command->token) {
        struct memory_given *given = malloc(sizeof *given);
        if (given)
            *given = (struct memory_given){call->serve, call->data};
        if (given && CL.clSetEventCallback(command->made, CL_COMPLETE, memory_free_when, given) ==
                         CL_SUCCESS) {
            call->data = NULL;
        } else {
            CL.clWaitForEvents(1, &command->made);
            free(given);
        }
    }
    if (command->made && !command->id)
        CL.clReleaseEvent(command->made);
    vg_serve_made_event(call, command->id, queue, command->made, result);
    return result;
}

cl_int
vg_serve_EnqueueReadBuffer(struct vg_serve_call *call)
{
    size_t offset = vg_wire_get(&call->in), size = vg_wire_get(&call->in);
    cl_command_queue queue = vg_serve_object(call, VG_CL_QUEUE);
    cl_mem buffer = vg_serve_object(call, VG_CL_MEM);
    struct memory_command c;

    memory_command_begin(call, &c);
    memory_set_rows(&c, NULL, size, 1, 1);
    if (!memory_read_begin(call, &c))
        return CL_OUT_OF_HOST_MEMORY;
    cl_int result = CL.clEnqueueReadBuffer(queue, buffer, !c.token, offset, size, c.rows.at, c.n,
                                           c.list, memory_event(&c, c.token));
    return memory_read_end(call, &c, queue, result);
}

cl_int
vg_serve_EnqueueWriteBuffer(struct vg_serve_call *call)
{
    size_t offset = vg_wire_get(&call->in), size = vg_wire_get(&call->in);
    cl_command_queue queue = vg_serve_object(call, VG_CL_QUEUE);
    cl_mem buffer = vg_serve_object(call, VG_CL_MEM);
    struct memory_command c;

    memory_command_begin(call, &c);
    memory_set_rows(&c, NULL, size, 1, 1);
    if (!memory_write_begin(call, &c))
        return CL_INVALID_VALUE;
    cl_int result = CL.clEnqueueWriteBuffer(queue, buffer, c.token != 0, offset, size, c.rows.at,
                                            c.n, c.list, memory_event(&c, !c.token));
    return memory_write_end(call, &c, queue, result);
}

struct memory_rect {
    size_t row_pitch, slice_pitch;
    cl_command_queue queue;
    cl_mem buffer;
    const size_t *origin, *region;
};

static void
memory_rect_begin(struct vg_serve_call *call, struct memory_rect *rect, struct memory_command *c)
{
    rect->row_pitch = vg_wire_get(&call->in);
    rect->slice_pitch = vg_wire_get(&call->in);
    rect->queue = vg_serve_object(call, VG_CL_QUEUE);
    rect->buffer = vg_serve_object(call, VG_CL_MEM);
    rect->origin = vg_wire_get_array(&call->in, 3, sizeof *rect->origin);
    rect->region = vg_wire_get_array(&call->in, 3, sizeof *rect->region);
    memory_command_begin(call, c);
    if (!rect->origin || !rect->region)
        call->in.is_bad = true;
    else
        memory_set_rows(c, NULL, rect->region[0], rect->region[1], rect->region[2]);
}

static const size_t memory_zero[3];

cl_int
vg_serve_EnqueueReadBufferRect(struct vg_serve_call *call)
{
    struct memory_rect rect;
    struct memory_command c;

    memory_rect_begin(call, &rect, &c);
    if (!memory_read_begin(call, &c))
        return CL_OUT_OF_HOST_MEMORY;
    cl_int result = CL.clEnqueueReadBufferRect(
        rect.queue, rect.buffer, !c.token, rect.origin, memory_zero, rect.region, rect.row_pitch,
        rect.slice_pitch, c.rows.row_pitch, c.rows.slice_pitch, c.rows.at, c.n, c.list,
        memory_event(&c, c.token));
    return memory_read_end(call, &c, rect.queue, result);
}

cl_int
vg_serve_EnqueueWriteBufferRect(struct vg_serve_call *call)
{
    struct memory_rect rect;
    struct memory_command c;

    memory_rect_begin(call, &rect, &c);
    if (!memory_write_begin(call, &c))
        return CL_INVALID_VALUE;
    cl_int result = CL.clEnqueueWriteBufferRect(
        rect.queue, rect.buffer, c.token != 0, rect.origin, memory_zero, rect.region,
        rect.row_pitch, rect.slice_pitch, c.rows.row_pitch, c.rows.slice_pitch, c.rows.at, c.n,
        c.list, memory_event(&c, !c.token));
    return memory_write_end(call, &c, rect.queue, result);
}

struct memory_part {
    cl_command_queue queue;
    cl_mem image;
    const size_t *origin, *region;
};

static void
memory_part_begin(struct vg_serve_call *call, struct memory_part *part)
{
    part->queue = vg_serve_object(call, VG_CL_QUEUE);
    part->image = vg_serve_object(call, VG_CL_MEM);
    part->origin = vg_wire_get_array(&call->in, 3, sizeof *part->origin);
    part->region = vg_wire_get_array(&call->in, 3, sizeof *part->region);
    if (!part->origin || !part->region)
        call->in.is_bad = true;
}

/* How many bytes the elements of a part have. False: it is no image of the client's. */
static bool
memory_part_rows(struct vg_serve_call *call, const struct memory_part *part,
                 struct memory_command *c)
{
    size_t element = 0, row;

    if (call->in.is_bad || !part->image ||
        CL.clGetImageInfo(part->image, CL_IMAGE_ELEMENT_SIZE, sizeof element, &element, NULL) !=
            CL_SUCCESS ||
        __builtin_mul_overflow(part->region[0], element, &row))
        return false;
    memory_set_rows(c, NULL, row, part->region[1], part->region[2]);
    return true;
}

cl_int
vg_serve_EnqueueReadImage(struct vg_serve_call *call)
{
    struct memory_part part;
    struct memory_command c;

    memory_part_begin(call, &part);
    memory_command_begin(call, &c);
    if (!memory_part_rows(call, &part, &c))
        return CL_INVALID_MEM_OBJECT;
    if (!memory_read_begin(call, &c))
        return CL_OUT_OF_HOST_MEMORY;
    cl_int result =
        CL.clEnqueueReadImage(part.queue, part.image, !c.token, part.origin, part.region, 0, 0,
                              c.rows.at, c.n, c.list, memory_event(&c, c.token));
    return memory_read_end(call, &c, part.queue, result);
}

cl_int
vg_serve_EnqueueWriteImage(struct vg_serve_call *call)
{
    struct memory_part part;
    struct memory_command c;

    memory_part_begin(call, &part);
    memory_command_begin(call, &c);
    if (!memory_part_rows(call, &part, &c))
        return CL_INVALID_MEM_OBJECT;
    if (!memory_write_begin(call, &c))
        return CL_INVALID_VALUE;
    cl_int result =
        CL.clEnqueueWriteImage(part.queue, part.image, c.token != 0, part.origin, part.region, 0, 0,
                               c.rows.at, c.n, c.list, memory_event(&c, !c.token));
    return memory_write_end(call, &c, part.queue, result);
}

/* ---- mapping ---- */

struct memory_map {
    struct memory_map *next;
    uint64_t number;
    cl_mem mem;
    void *pointer;
    struct vg_wire_rows rows;
    bool is_written;
};

/* A process has one client. */
static struct memory_map *memory_maps;
static pthread_mutex_t memory_maps_lock = PTHREAD_MUTEX_INITIALIZER;

static void
memory_keep_map(struct memory_map *map)
{
    pthread_mutex_lock(&memory_maps_lock);
    map->next = memory_maps;
    memory_maps = map;
    pthread_mutex_unlock(&memory_maps_lock);
}

static struct memory_map *
memory_take_map(uint64_t number, cl_mem mem)
{
    struct memory_map *found = NULL;

    pthread_mutex_lock(&memory_maps_lock);
    for (struct memory_map **link = &memory_maps; *link; link = &(*link)->next)
        if ((*link)->number == number && (*link)->mem == mem) {
            found = *link;
            *link = found->next;
            break;
        }
    pthread_mutex_unlock(&memory_maps_lock);
    return found;
}

struct memory_mapping {
    uint64_t number;
    cl_map_flags flags;
    bool is_blocking;
};

static void
memory_mapping_begin(struct vg_serve_call *call, struct memory_mapping *mapping,
                     struct memory_command *c)
{
    mapping->number = vg_wire_get(&call->in);
    mapping->flags = vg_wire_get(&call->in);
    mapping->is_blocking = vg_wire_get(&call->in);
    memory_command_begin(call, c);
}

/* Keeps a mapping, and answers with what is there, or promises it. */
static cl_int
memory_mapped(struct vg_serve_call *call, const struct memory_mapping *mapping,
              struct memory_command *c, cl_command_queue queue, cl_mem mem, void *pointer,
              cl_int result)
{
    struct memory_map *map = result == CL_SUCCESS ? malloc(sizeof *map) : NULL;
    size_t size = vg_wire_rows_size(&c->rows);

    if (result == CL_SUCCESS && !map)
        result = CL_OUT_OF_HOST_MEMORY;
    c->rows.at = pointer;
    if (map) {
        *map = (struct memory_map){
            NULL,    mapping->number,
            mem,     pointer,
            c->rows, mapping->flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION)};
        memory_keep_map(map);
    }
    if (map && !c->token) {
        void *all =
            call->room && call->room_size == size ? call->room : vg_serve_memory(call, size);
        if (all)
            vg_wire_rows_gather(&c->rows, all);
        call->answer = all;
        call->answer_size = size;
    } else if (map && !vg_serve_read_later(call, c->token, c->made, &c->rows, NULL)) {
        call->in.is_bad = true;
    }
    if (c->made && !c->id)
        CL.clReleaseEvent(c->made);
    vg_serve_made_event(call, c->id, queue, c->made, result);
    return result;
}

cl_int
vg_serve_EnqueueMapBuffer(struct vg_serve_call *call)
{
    size_t offset = vg_wire_get(&call->in), size = vg_wire_get(&call->in);
    cl_command_queue queue = vg_serve_object(call, VG_CL_QUEUE);
    cl_mem buffer = vg_serve_object(call, VG_CL_MEM);
    struct memory_mapping mapping;
    struct memory_command c;
    cl_int error = CL_SUCCESS;

    memory_mapping_begin(call, &mapping, &c);
    memory_set_rows(&c, NULL, size, 1, 1);
    if (call->in.is_bad || vg_wire_rows_size(&c.rows) == 0)
        return CL_INVALID_VALUE;
    void *pointer = CL.clEnqueueMapBuffer(queue, buffer, mapping.is_blocking, mapping.flags, offset,
                                          size, c.n, c.list, memory_event(&c, c.token), &error);
    return memory_mapped(call, &mapping, &c, queue, buffer, pointer, error);
}

cl_int
vg_serve_EnqueueMapImage(struct vg_serve_call *call)
{
    struct memory_part part;
    struct memory_mapping mapping;
    struct memory_command c;
    size_t row_pitch = 0, slice_pitch = 0;
    cl_mem_object_type type = 0;
    cl_int error = CL_SUCCESS;

    memory_part_begin(call, &part);
    memory_mapping_begin(call, &mapping, &c);
    if (!memory_part_rows(call, &part, &c) || vg_wire_rows_size(&c.rows) == 0)
        return CL_INVALID_MEM_OBJECT;
    void *pointer = CL.clEnqueueMapImage(part.queue, part.image, mapping.is_blocking, mapping.flags,
                                         part.origin, part.region, &row_pitch, &slice_pitch, c.n,
                                         c.list, memory_event(&c, c.token), &error);
    CL.clGetMemObjectInfo(part.image, CL_MEM_TYPE, sizeof type, &type, NULL);
    c.rows.row_pitch = type == CL_MEM_OBJECT_IMAGE1D_ARRAY ? slice_pitch : row_pitch;
    c.rows.slice_pitch = slice_pitch;
    return memory_mapped(call, &mapping, &c, part.queue, part.image, pointer, error);
}

cl_int
vg_serve_EnqueueUnmapMemObject(struct vg_serve_call *call)
{
    uint64_t number = vg_wire_get(&call->in);
    cl_command_queue queue = vg_serve_object(call, VG_CL_QUEUE);
    cl_mem mem = vg_serve_object(call, VG_CL_MEM);
    struct memory_command c;

    memory_command_begin(call, &c);
    struct memory_map *map = call->in.is_bad ? NULL : memory_take_map(number, mem);
    if (!map)
        return CL_INVALID_VALUE;
    size_t size = map->is_written ? vg_wire_rows_size(&map->rows) : 0;
    if (call->head.data != size) {
        call->in.is_bad = true;
        free(map);
        return CL_INVALID_VALUE;
    }
    if (size)
        vg_wire_rows_scatter(&map->rows, call->data);
    cl_int result =
        CL.clEnqueueUnmapMemObject(queue, mem, map->pointer, c.n, c.list, memory_event(&c, false));
    if (result == CL_SUCCESS)
        free(map);
    else
        memory_keep_map(map);
    vg_serve_made_event(call, c.id, queue, c.made, result);
    return result;
}
