/* SPDX-License-Identifier: Apache-2.0
 *
 * Hand-written functions of the program's side for memory, which is sent as the data of a message.
 * The program's own memory (CL_MEM_USE_HOST_PTR) is the proxy's copy of it between mappings, as the
 * standard allows.
 */
#include "config.h"

#include "opencl/client/memory.h"

#include <stdlib.h>
#include <string.h>

#include "opencl/client/later.h"
#include "opencl/client/pieces.h"
#include "opencl/client/table.h"
#include "opencl/track/callback.h"
#include "opencl/wire/image.h"

struct vg_wire_end {
    struct vg_wire_end *next;
    vg_cl_mem_notify call;
    void *user_data;
};

#define MEMORY_COPIED (CL_MEM_USE_HOST_PTR | CL_MEM_COPY_HOST_PTR)

/* ---- objects ---- */

/* Ends a call that creates MADE with the properties MEM. The element size of an image is stored
 * here: the proxy must not decide which of the program's memory is read and written. */
static cl_mem
memory_made(struct vg_wire_call *call, struct vg_wire_object *made, const struct vg_wire_mem *mem,
            cl_int *errcode_ret)
{
    cl_int result = made ? vg_wire_call_ask(call) : CL_OUT_OF_HOST_MEMORY;
    uint64_t element = result == CL_SUCCESS ? vg_wire_get(&call->in) : 0;
    bool is_image = mem->kind != CL_MEM_OBJECT_BUFFER;

    vg_wire_call_end(call);
    if (result == CL_SUCCESS) {
        made->mem = *mem;
        if (element != mem->element || (is_image && !element)) {
            vg_wire_ReleaseMemObject((cl_mem)made);
            vg_cl_set_error(errcode_ret, is_image ? CL_IMAGE_FORMAT_NOT_SUPPORTED : VG_WIRE_BROKEN);
            return NULL;
        }
    }
    vg_cl_set_error(errcode_ret, result);
    if (result == CL_SUCCESS)
        return (cl_mem)made;
    vg_wire_free(made);
    return NULL;
}

cl_mem CL_API_CALL
vg_wire_CreateBufferWithProperties(cl_context context, const cl_mem_properties *properties,
                                   cl_mem_flags flags, size_t size, void *host_ptr,
                                   cl_int *errcode_ret)
{
    struct vg_wire_call call;
    struct vg_wire_mem mem = {.size = size, .flags = flags, .kind = CL_MEM_OBJECT_BUFFER};
    bool has_data = host_ptr && (flags & MEMORY_COPIED) && size <= vg_wire_memory_most(context);

    vg_wire_call_begin(&call, context, VG_WIRE_OP_CreateBufferWithProperties);
    vg_wire_put(&call.out, flags);
    vg_wire_put(&call.out, size);
    vg_wire_put(&call.out, host_ptr != NULL);
    vg_wire_put(&call.out, properties != NULL);
    vg_wire_put_object(&call, context);
    struct vg_wire_rows rows = vg_wire_memory_one_row(host_ptr, size);
    if (has_data && size > 0)
        vg_wire_memory_put_data(&call, &rows); /* which are contiguous */
    if (flags & CL_MEM_USE_HOST_PTR)
        mem.host = host_ptr;
    struct vg_wire_object *made = vg_wire_new(&call, VG_CL_MEM, context);
    return memory_made(&call, made, &mem, errcode_ret);
}

cl_mem CL_API_CALL
vg_wire_CreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host_ptr,
                     cl_int *errcode_ret)
{
    return vg_wire_CreateBufferWithProperties(context, NULL, flags, size, host_ptr, errcode_ret);
}

cl_mem CL_API_CALL
vg_wire_CreateSubBuffer(cl_mem buffer, cl_mem_flags flags, cl_buffer_create_type buffer_create_type,
                        const void *buffer_create_info, cl_int *errcode_ret)
{
    struct vg_wire_call call;
    const struct vg_wire_object *parent = vg_wire_object(buffer);
    const cl_buffer_region *region = buffer_create_info;
    struct vg_wire_mem mem = {
        .size = region->size, .flags = flags | parent->mem.flags, .kind = CL_MEM_OBJECT_BUFFER};

    (void)buffer_create_type;
    vg_wire_call_begin(&call, buffer, VG_WIRE_OP_CreateSubBuffer);
    vg_wire_put(&call.out, flags);
    vg_wire_put(&call.out, region->origin);
    vg_wire_put(&call.out, region->size);
    vg_wire_put_object(&call, buffer);
    if (parent->mem.host)
        mem.host = parent->mem.host + region->origin;
    mem.origin = region->origin + 1;
    struct vg_wire_object *made = vg_wire_new(&call, VG_CL_MEM, parent->context);
    return memory_made(&call, made, &mem, errcode_ret);
}

/* Finds the data with which an image is created. Returns false if it is invalid. */
static bool
memory_image_rows(const cl_image_format *format, const cl_image_desc *desc, void *host,
                  struct vg_wire_rows *rows)
{
    size_t region[3];
    size_t element = vg_wire_image_element(format);

    vg_wire_image_region(desc, region);
    bool is_flat_array = desc->image_type == CL_MEM_OBJECT_IMAGE1D_ARRAY;
    if (!vg_wire_image_rows(rows, element, region, desc->image_row_pitch, desc->image_slice_pitch,
                            is_flat_array))
        return false;
    rows->at = host;
    return vg_wire_rows_size(rows) > 0;
}

cl_mem CL_API_CALL
vg_wire_CreateImageWithProperties(cl_context context, const cl_mem_properties *properties,
                                  cl_mem_flags flags, const cl_image_format *image_format,
                                  const cl_image_desc *image_desc, void *host_ptr,
                                  cl_int *errcode_ret)
{
    struct vg_wire_call call;
    struct vg_wire_mem mem = {.flags = flags,
                              .kind = image_desc->image_type,
                              .element = vg_wire_image_element(image_format)};
    struct vg_wire_rows rows;
    bool has_data = host_ptr && (flags & MEMORY_COPIED) &&
                    memory_image_rows(image_format, image_desc, host_ptr, &rows) &&
                    vg_wire_rows_size(&rows) <= vg_wire_memory_most(context);

    vg_wire_call_begin(&call, context, VG_WIRE_OP_CreateImageWithProperties);
    vg_wire_put(&call.out, flags);
    vg_wire_put(&call.out, host_ptr != NULL);
    vg_wire_put(&call.out, properties != NULL);
    vg_wire_put_object(&call, context);
    vg_wire_put_object(&call, image_desc->mem_object);
    vg_wire_put_list(&call.out, image_format, sizeof *image_format);
    vg_wire_put_list(&call.out, image_desc, offsetof(cl_image_desc, num_mip_levels));
    void *all = has_data ? vg_wire_memory_put_data(&call, &rows) : NULL;
    if (has_data && (flags & CL_MEM_USE_HOST_PTR)) {
        mem.host = host_ptr;
        mem.row_pitch = rows.row_pitch;
        mem.slice_pitch = rows.slice_pitch;
    }
    struct vg_wire_object *made = vg_wire_new(&call, VG_CL_MEM, context);
    cl_mem image = memory_made(&call, made, &mem, errcode_ret);
    free(all);
    return image;
}

cl_mem CL_API_CALL
vg_wire_CreateImage(cl_context context, cl_mem_flags flags, const cl_image_format *image_format,
                    const cl_image_desc *image_desc, void *host_ptr, cl_int *errcode_ret)
{
    return vg_wire_CreateImageWithProperties(context, NULL, flags, image_format, image_desc,
                                             host_ptr, errcode_ret);
}

/* Mapped memory keeps its address until the object is destroyed, and this side then calls the
 * callbacks. */
cl_int CL_API_CALL
vg_wire_SetMemObjectDestructorCallback(cl_mem memobj, vg_cl_mem_notify pfn_notify, void *user_data)
{
    struct vg_wire_object *mem = vg_wire_object(memobj);
    struct vg_wire_end *end = malloc(sizeof *end);

    if (!end)
        return CL_OUT_OF_HOST_MEMORY;
    vg_wire_lock(mem->client);
    *end = (struct vg_wire_end){mem->mem.ends, pfn_notify, user_data};
    mem->mem.ends = end;
    vg_wire_unlock(mem->client);
    return CL_SUCCESS;
}

cl_int CL_API_CALL
vg_wire_ReleaseMemObject(cl_mem memobj)
{
    struct vg_wire_object *mem = vg_wire_object(memobj);
    struct vg_wire_end *ends = mem->mem.ends;

    while (mem->mem.maps) {
        struct vg_wire_map *map = mem->mem.maps;
        mem->mem.maps = map->next;
        vg_wire_leave_read(mem->client, map->token);
        if (map->is_own)
            free(map->pointer);
        free(map);
    }
    cl_int result = vg_wire_ask_ReleaseMemObject(memobj);
    while (ends) {
        struct vg_wire_end *end = ends;
        ends = end->next;
        end->call(memobj, end->user_data);
        free(end);
    }
    return result;
}

/* Only this side knows the layout of the program's memory. */
cl_int CL_API_CALL
vg_wire_GetImageInfo(cl_mem image, cl_image_info param_name, size_t param_value_size,
                     void *param_value, size_t *param_value_size_ret)
{
    const struct vg_wire_mem *mem = &vg_wire_object(image)->mem;
    bool is_row = param_name == CL_IMAGE_ROW_PITCH;
    bool has_slices = mem->kind == CL_MEM_OBJECT_IMAGE3D ||
                      mem->kind == CL_MEM_OBJECT_IMAGE2D_ARRAY ||
                      mem->kind == CL_MEM_OBJECT_IMAGE1D_ARRAY;
    size_t pitch = is_row ? mem->row_pitch : mem->slice_pitch;

    cl_int result = vg_wire_ask_GetImageInfo(image, param_name, param_value_size, param_value,
                                             param_value_size_ret);
    if (result == CL_SUCCESS && param_value && param_value_size >= sizeof pitch && mem->host &&
        (is_row || (param_name == CL_IMAGE_SLICE_PITCH && has_slices)))
        memcpy(param_value, &pitch, sizeof pitch);
    return result;
}

cl_int CL_API_CALL
vg_wire_GetMemObjectInfo(cl_mem memobj, cl_mem_info param_name, size_t param_value_size,
                         void *param_value, size_t *param_value_size_ret)
{
    const struct vg_wire_mem *mem = &vg_wire_object(memobj)->mem;

    if (param_name != CL_MEM_SIZE || mem->element || !param_value ||
        param_value_size < sizeof mem->size)
        return vg_wire_ask_GetMemObjectInfo(memobj, param_name, param_value_size, param_value,
                                            param_value_size_ret);
    memcpy(param_value, &mem->size, sizeof mem->size);
    if (param_value_size_ret)
        *param_value_size_ret = sizeof mem->size;
    return CL_SUCCESS;
}

/* ---- reading and writing ---- */

#define MEMORY_NO_READ  (CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_NO_ACCESS)
#define MEMORY_NO_WRITE (CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS)

cl_int CL_API_CALL
vg_wire_EnqueueReadBuffer(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking_read,
                          size_t offset, size_t size, void *ptr, cl_uint num_events_in_wait_list,
                          const cl_event *event_wait_list, cl_event *event)
{
    struct vg_wire_call call;
    struct vg_wire_rows rows = vg_wire_memory_one_row(ptr, size);

    if (!buffer || vg_wire_object(buffer)->mem.element)
        return CL_INVALID_MEM_OBJECT;
    if (vg_wire_memory_is_nothing(buffer, offset, size, ptr))
        return vg_wire_memory_do_nothing(command_queue, buffer, MEMORY_NO_READ, blocking_read,
                                         num_events_in_wait_list, event_wait_list, event);
    if (!vg_wire_memory_is_inside(buffer, offset, size, ptr))
        return vg_wire_memory_refuse(command_queue, buffer, MEMORY_NO_READ);
    if (blocking_read && vg_wire_pieces_can(command_queue, size, num_events_in_wait_list, event))
        return vg_wire_pieces_read(command_queue, buffer, offset, size, ptr);
    vg_wire_call_begin(&call, command_queue, VG_WIRE_OP_EnqueueReadBuffer);
    vg_wire_memory_put_buffer(&call, command_queue, buffer, offset, size);
    return vg_wire_memory_read(&call, &rows, blocking_read, num_events_in_wait_list,
                               event_wait_list, event);
}

/* Returns whether a blocking write that cannot fail need not be waited for. The proxy completes it
 * before it handles a later message, so that the program cannot notice the difference. The write
 * must not wait for an event that only a later message sets. */
static bool
memory_can_tell(const struct vg_wire_object *mem, cl_uint n, const cl_event *event)
{
    return mem->mem.is_written && n == 0 && !event && vg_cl_user_events_n == 0;
}

cl_int CL_API_CALL
vg_wire_EnqueueWriteBuffer(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking_write,
                           size_t offset, size_t size, const void *ptr,
                           cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                           cl_event *event)
{
    struct vg_wire_call call;
    struct vg_wire_rows rows = vg_wire_memory_one_row(ptr, size);

    if (!buffer || vg_wire_object(buffer)->mem.element)
        return CL_INVALID_MEM_OBJECT;
    if (vg_wire_memory_is_nothing(buffer, offset, size, ptr))
        return vg_wire_memory_do_nothing(command_queue, buffer, MEMORY_NO_WRITE, blocking_write,
                                         num_events_in_wait_list, event_wait_list, event);
    if (!vg_wire_memory_is_inside(buffer, offset, size, ptr))
        return vg_wire_memory_refuse(command_queue, buffer, MEMORY_NO_WRITE);
    bool does_well = vg_wire_later_write(command_queue, buffer, offset, size,
                                         num_events_in_wait_list, event_wait_list);
    if (does_well && vg_wire_pieces_can(command_queue, size, num_events_in_wait_list, event))
        return vg_wire_pieces_write(command_queue, buffer, blocking_write, offset, size, ptr);
    vg_wire_call_begin(&call, command_queue, VG_WIRE_OP_EnqueueWriteBuffer);
    vg_wire_memory_put_buffer(&call, command_queue, buffer, offset, size);
    call.is_later =
        does_well && (!blocking_write ||
                      memory_can_tell(vg_wire_object(buffer), num_events_in_wait_list, event));
    cl_int result = vg_wire_memory_write(&call, &rows, blocking_write, num_events_in_wait_list,
                                         event_wait_list, event);
    if (result == CL_SUCCESS && blocking_write)
        vg_wire_object(buffer)->mem.is_written = true;
    return result;
}

/* Checks a part of the program's memory. Returns false if it is invalid. */
static bool
memory_rect(struct vg_wire_rows *rows, const void *ptr, const size_t *origin, const size_t *region,
            size_t row_pitch, size_t slice_pitch)
{
    if (!ptr || !origin || !region)
        return false;
    row_pitch = row_pitch ? row_pitch : region[0];
    size_t least = region[1] * row_pitch;
    slice_pitch = slice_pitch ? slice_pitch : least;
    if (row_pitch < region[0] || slice_pitch < least || slice_pitch % (row_pitch ? row_pitch : 1))
        return false;
    *rows = (struct vg_wire_rows){(unsigned char *)(uintptr_t)ptr + origin[2] * slice_pitch +
                                      origin[1] * row_pitch + origin[0],
                                  region[0],
                                  region[1],
                                  region[2],
                                  row_pitch,
                                  slice_pitch};
    return vg_wire_rows_size(rows) > 0;
}

/* Returns whether a part is inside BUFFER. Otherwise, nothing of the program's memory may be read
 * for it. */
static bool
memory_has_rect(cl_mem buffer, const size_t *origin, const size_t *region, size_t row_pitch,
                size_t slice_pitch)
{
    size_t all = vg_wire_object(buffer)->mem.size, end, part;

    row_pitch = row_pitch ? row_pitch : region[0];
    slice_pitch = slice_pitch ? slice_pitch : region[1] * row_pitch;
    return !__builtin_mul_overflow(origin[2] + region[2] - 1, slice_pitch, &end) &&
           !__builtin_mul_overflow(origin[1] + region[1] - 1, row_pitch, &part) &&
           !__builtin_add_overflow(end, part, &end) &&
           !__builtin_add_overflow(end, origin[0], &end) &&
           !__builtin_add_overflow(end, region[0], &end) && end <= all;
}

static void
memory_put_rect(struct vg_wire_call *call, cl_command_queue queue, cl_mem buffer,
                const size_t *origin, const size_t *region, size_t row_pitch, size_t slice_pitch)
{
    vg_wire_put(&call->out, row_pitch);
    vg_wire_put(&call->out, slice_pitch);
    vg_wire_put_object(call, queue);
    vg_wire_put_object(call, buffer);
    vg_wire_put_list(&call->out, origin, 3 * sizeof *origin);
    vg_wire_put_list(&call->out, region, 3 * sizeof *region);
}

cl_int CL_API_CALL
vg_wire_EnqueueReadBufferRect(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking_read,
                              const size_t *buffer_origin, const size_t *host_origin,
                              const size_t *region, size_t buffer_row_pitch,
                              size_t buffer_slice_pitch, size_t host_row_pitch,
                              size_t host_slice_pitch, void *ptr, cl_uint num_events_in_wait_list,
                              const cl_event *event_wait_list, cl_event *event)
{
    struct vg_wire_call call;
    struct vg_wire_rows rows;

    if (!buffer || vg_wire_object(buffer)->mem.element)
        return CL_INVALID_MEM_OBJECT;
    if (!buffer_origin ||
        !memory_rect(&rows, ptr, host_origin, region, host_row_pitch, host_slice_pitch) ||
        !memory_has_rect(buffer, buffer_origin, region, buffer_row_pitch, buffer_slice_pitch))
        return vg_wire_memory_refuse(command_queue, buffer, MEMORY_NO_READ);
    vg_wire_call_begin(&call, command_queue, VG_WIRE_OP_EnqueueReadBufferRect);
    memory_put_rect(&call, command_queue, buffer, buffer_origin, region, buffer_row_pitch,
                    buffer_slice_pitch);
    return vg_wire_memory_read(&call, &rows, blocking_read, num_events_in_wait_list,
                               event_wait_list, event);
}

cl_int CL_API_CALL
vg_wire_EnqueueWriteBufferRect(cl_command_queue command_queue, cl_mem buffer,
                               cl_bool blocking_write, const size_t *buffer_origin,
                               const size_t *host_origin, const size_t *region,
                               size_t buffer_row_pitch, size_t buffer_slice_pitch,
                               size_t host_row_pitch, size_t host_slice_pitch, const void *ptr,
                               cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                               cl_event *event)
{
    struct vg_wire_call call;
    struct vg_wire_rows rows;

    if (!buffer || vg_wire_object(buffer)->mem.element)
        return CL_INVALID_MEM_OBJECT;
    if (!buffer_origin ||
        !memory_rect(&rows, ptr, host_origin, region, host_row_pitch, host_slice_pitch) ||
        !memory_has_rect(buffer, buffer_origin, region, buffer_row_pitch, buffer_slice_pitch))
        return vg_wire_memory_refuse(command_queue, buffer, MEMORY_NO_WRITE);
    vg_wire_call_begin(&call, command_queue, VG_WIRE_OP_EnqueueWriteBufferRect);
    memory_put_rect(&call, command_queue, buffer, buffer_origin, region, buffer_row_pitch,
                    buffer_slice_pitch);
    return vg_wire_memory_write(&call, &rows, blocking_write, num_events_in_wait_list,
                                event_wait_list, event);
}

/* ---- images ---- */

/* Finds the program's memory for a part of an image. Returns false if it is invalid. */
static bool
memory_image_part(struct vg_wire_rows *rows, cl_mem image, const size_t *origin,
                  const size_t *region, size_t row_pitch, size_t slice_pitch, const void *ptr)
{
    const struct vg_wire_mem *mem = &vg_wire_object(image)->mem;

    if (!ptr || !origin || !region ||
        !vg_wire_image_rows(rows, mem->element, region, row_pitch, slice_pitch,
                            mem->kind == CL_MEM_OBJECT_IMAGE1D_ARRAY))
        return false;
    rows->at = (unsigned char *)(uintptr_t)ptr;
    size_t size = vg_wire_rows_size(rows);
    return size > 0 && size <= vg_wire_memory_most(vg_wire_object(image)->context);
}

cl_int CL_API_CALL
vg_wire_EnqueueReadImage(cl_command_queue command_queue, cl_mem image, cl_bool blocking_read,
                         const size_t *origin, const size_t *region, size_t row_pitch,
                         size_t slice_pitch, void *ptr, cl_uint num_events_in_wait_list,
                         const cl_event *event_wait_list, cl_event *event)
{
    struct vg_wire_call call;
    struct vg_wire_rows rows;

    if (!image || !vg_wire_object(image)->mem.element)
        return CL_INVALID_MEM_OBJECT;
    if (!memory_image_part(&rows, image, origin, region, row_pitch, slice_pitch, ptr))
        return vg_wire_memory_refuse(command_queue, image, MEMORY_NO_READ);
    vg_wire_call_begin(&call, command_queue, VG_WIRE_OP_EnqueueReadImage);
    vg_wire_memory_put_image(&call, command_queue, image, origin, region);
    return vg_wire_memory_read(&call, &rows, blocking_read, num_events_in_wait_list,
                               event_wait_list, event);
}

cl_int CL_API_CALL
vg_wire_EnqueueWriteImage(cl_command_queue command_queue, cl_mem image, cl_bool blocking_write,
                          const size_t *origin, const size_t *region, size_t input_row_pitch,
                          size_t input_slice_pitch, const void *ptr,
                          cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                          cl_event *event)
{
    struct vg_wire_call call;
    struct vg_wire_rows rows;

    if (!image || !vg_wire_object(image)->mem.element)
        return CL_INVALID_MEM_OBJECT;
    if (!memory_image_part(&rows, image, origin, region, input_row_pitch, input_slice_pitch, ptr))
        return vg_wire_memory_refuse(command_queue, image, MEMORY_NO_WRITE);
    vg_wire_call_begin(&call, command_queue, VG_WIRE_OP_EnqueueWriteImage);
    vg_wire_memory_put_image(&call, command_queue, image, origin, region);
    return vg_wire_memory_write(&call, &rows, blocking_write, num_events_in_wait_list,
                                event_wait_list, event);
}
