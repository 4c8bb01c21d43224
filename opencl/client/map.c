/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that the program maps: it gets a copy of what the proxy has mapped, or its own memory,
 * which is updated.
 */
#include "config.h"

#include <stdlib.h>

#include "opencl/client/memory.h"
#include "opencl/client/table.h"
#include "opencl/wire/image.h"

static _Atomic uint64_t map_last;

/* Reads what is mapped, except what will be overwritten: the program may already be writing there,
 * for example if its memory is mapped again after a stop. */
static cl_int
map_read(struct vg_wire_call *call, const struct vg_wire_map *map, cl_bool blocking, cl_uint n,
         const cl_event *list, cl_event *event)
{
    struct vg_wire_rows rows = map->rows;
    bool is_left = (map->flags & CL_MAP_WRITE_INVALIDATE_REGION) && blocking && !map->is_own &&
                   vg_wire_rows_are_one(&rows);
    void *instead = is_left ? malloc(vg_wire_rows_size(&rows)) : NULL;

    if (is_left && !instead)
        return CL_OUT_OF_HOST_MEMORY;
    if (is_left)
        rows.at = instead;
    cl_int result = vg_wire_memory_read(call, &rows, blocking, n, list, event);
    free(instead);
    return result;
}

/* Ends both kinds of mapping. Frees MAP on failure. */
static void *
map_end(struct vg_wire_call *call, struct vg_wire_object *mem, struct vg_wire_map *map,
        cl_bool blocking, cl_uint n, const cl_event *list, cl_event *event, cl_int *errcode_ret)
{
    size_t size = vg_wire_rows_size(&map->rows);

    map->number = ++map_last;
    vg_wire_put(&call->out, map->number);
    vg_wire_put(&call->out, map->flags);
    vg_wire_put(&call->out, blocking);
    if (!map->pointer) {
        map->pointer = map->rows.at = calloc(1, size);
        map->is_own = true;
    }
    cl_int result =
        map->pointer && size ? map_read(call, map, blocking, n, list, event) : CL_MAP_FAILURE;
    vg_cl_set_error(errcode_ret, result);
    map->token = call->token;
    if (result == CL_SUCCESS) {
        vg_wire_lock(mem->client);
        map->next = mem->mem.maps;
        mem->mem.maps = map;
        vg_wire_unlock(mem->client);
        return map->pointer;
    }
    if (map->is_own)
        free(map->pointer);
    free(map);
    return NULL;
}

void *CL_API_CALL
vg_wire_EnqueueMapBuffer(cl_command_queue command_queue, cl_mem buffer, cl_bool blocking_map,
                         cl_map_flags map_flags, size_t offset, size_t size,
                         cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                         cl_event *event, cl_int *errcode_ret)
{
    struct vg_wire_call call;
    struct vg_wire_object *mem = vg_wire_object(buffer);
    bool is_inside = vg_wire_memory_is_inside(buffer, offset, size, buffer);
    struct vg_wire_map *map = is_inside ? calloc(1, sizeof *map) : NULL;

    if (!map) {
        vg_cl_set_error(errcode_ret, is_inside ? CL_OUT_OF_HOST_MEMORY
                                               : vg_wire_memory_refuse(command_queue, buffer, 0));
        return NULL;
    }
    map->flags = map_flags;
    map->rows = vg_wire_memory_one_row(mem->mem.host ? mem->mem.host + offset : NULL, size);
    map->pointer = map->rows.at;
    vg_wire_call_begin(&call, command_queue, VG_WIRE_OP_EnqueueMapBuffer);
    vg_wire_memory_put_buffer(&call, command_queue, buffer, offset, size);
    return map_end(&call, mem, map, blocking_map, num_events_in_wait_list, event_wait_list, event,
                   errcode_ret);
}

void *CL_API_CALL
vg_wire_EnqueueMapImage(cl_command_queue command_queue, cl_mem image, cl_bool blocking_map,
                        cl_map_flags map_flags, const size_t *origin, const size_t *region,
                        size_t *image_row_pitch, size_t *image_slice_pitch,
                        cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                        cl_event *event, cl_int *errcode_ret)
{
    struct vg_wire_call call;
    struct vg_wire_object *mem = vg_wire_object(image);
    bool is_flat_array = mem->mem.kind == CL_MEM_OBJECT_IMAGE1D_ARRAY;
    struct vg_wire_rows rows;
    bool can_be = vg_wire_image_rows(&rows, mem->mem.element, region, mem->mem.row_pitch,
                                     mem->mem.slice_pitch, is_flat_array) &&
                  vg_wire_rows_size(&rows) <= vg_wire_memory_most(mem->context);
    struct vg_wire_map *map = can_be ? calloc(1, sizeof *map) : NULL;

    if (!map) {
        vg_cl_set_error(errcode_ret, can_be ? CL_OUT_OF_HOST_MEMORY
                                            : vg_wire_memory_refuse(command_queue, image, 0));
        return NULL;
    }
    map->flags = map_flags;
    map->rows = rows;
    map->rows.at = mem->mem.host;
    if (mem->mem.host)
        map->rows.at += origin[0] * mem->mem.element +
                        origin[1] * (is_flat_array ? rows.slice_pitch : rows.row_pitch) +
                        origin[2] * rows.slice_pitch;
    map->pointer = map->rows.at;
    vg_wire_call_begin(&call, command_queue, VG_WIRE_OP_EnqueueMapImage);
    vg_wire_memory_put_image(&call, command_queue, image, origin, region);
    void *pointer = map_end(&call, mem, map, blocking_map, num_events_in_wait_list, event_wait_list,
                            event, errcode_ret);
    if (pointer) {
        bool has_slices = mem->mem.kind == CL_MEM_OBJECT_IMAGE3D ||
                          mem->mem.kind == CL_MEM_OBJECT_IMAGE2D_ARRAY || is_flat_array;
        *image_row_pitch = rows.row_pitch;
        if (image_slice_pitch)
            *image_slice_pitch = has_slices ? rows.slice_pitch : 0;
    }
    return pointer;
}

static struct vg_wire_map *
map_take(struct vg_wire_object *mem, const void *pointer)
{
    struct vg_wire_map *found = NULL;

    vg_wire_lock(mem->client);
    for (struct vg_wire_map **link = &mem->mem.maps; *link; link = &(*link)->next)
        if ((*link)->pointer == pointer) {
            found = *link;
            *link = found->next;
            break;
        }
    vg_wire_unlock(mem->client);
    return found;
}

cl_int CL_API_CALL
vg_wire_EnqueueUnmapMemObject(cl_command_queue command_queue, cl_mem memobj, void *mapped_ptr,
                              cl_uint num_events_in_wait_list, const cl_event *event_wait_list,
                              cl_event *event)
{
    struct vg_wire_call call;
    struct vg_wire_object *mem = vg_wire_object(memobj);
    struct vg_wire_map *map = map_take(mem, mapped_ptr);
    struct vg_wire_rows rows = {.at = NULL};

    if (!map)
        return CL_INVALID_VALUE;
    /* Before the data has come, the program cannot have written to it. */
    bool is_there = !vg_wire_leave_read(mem->client, map->token);
    if (is_there && (map->flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION)))
        rows = map->rows;
    vg_wire_call_begin(&call, command_queue, VG_WIRE_OP_EnqueueUnmapMemObject);
    vg_wire_put(&call.out, map->number);
    vg_wire_put_object(&call, command_queue);
    vg_wire_put_object(&call, memobj);
    cl_int result = vg_wire_memory_write(&call, &rows, CL_FALSE, num_events_in_wait_list,
                                         event_wait_list, event);
    if (result != CL_SUCCESS) {
        vg_wire_lock(mem->client);
        map->next = mem->mem.maps;
        mem->mem.maps = map;
        vg_wire_unlock(mem->client);
        return result;
    }
    if (map->is_own)
        free(map->pointer);
    free(map);
    return result;
}
