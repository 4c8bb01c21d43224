/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that the program maps: the vendor maps memory that is the program's or this library's.
 * Memory in the device is read into a shadow, and unmapping writes it back, which vendors also do.
 * The program's pointer thus remains valid when the vendor's object is created again.
 */
#include "config.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "opencl/track/callback.h"
#include "opencl/track/calls.h"
#include "opencl/track/enqueue.h"
#include "opencl/track/memory.h"

#define MAP_ALL (CL_MAP_READ | CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION)

/* Returns true if the vendor's own pointer remains valid: it points to memory that is not the
 * vendor's.
 */
static bool
map_is_in_place(const struct vg_cl_object *mem)
{
    const struct vg_cl_object *root = mem;

    while (root->mem.parent)
        root = root->mem.parent;
    return !mem->mem.image == !root->mem.image && vg_cl_mem_is_in_place(root);
}

/* Memory that the host may not read and write cannot have a shadow. */
static bool
map_is_closed(const struct vg_cl_object *mem)
{
    const cl_mem_flags closed =
        CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS;

    return (mem->mem.flags | (mem->mem.parent ? mem->mem.parent->mem.flags : 0)) & closed;
}

static cl_int
map_check(const struct vg_cl_object *queue, const struct vg_cl_object *mem, cl_map_flags flags)
{
    if (!queue)
        return CL_INVALID_COMMAND_QUEUE;
    if (!mem)
        return CL_INVALID_MEM_OBJECT;
    /* The standard does not define reading or writing together with invalidating, but vendors
     * accept it. */
    return flags & ~(cl_map_flags)MAP_ALL ? CL_INVALID_VALUE : CL_SUCCESS;
}

static bool
map_get_shadow(struct vg_cl_map *map)
{
    void *shadow =
        mmap(NULL, map->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (shadow == MAP_FAILED)
        return false;
    map->pointer = shadow;
    map->is_shadow = true;
    return true;
}

static void
map_forget(struct vg_cl_map *map)
{
    if (map && map->is_shadow)
        munmap(map->pointer, map->size);
    free(map);
}

/* Forgets it now, or when nothing writes to it any more. */
static void
map_leave(struct vg_cl_map *map)
{
    vg_cl_lock();
    bool is_pending = map->is_pending;
    map->is_left = true;
    vg_cl_unlock();
    if (!is_pending)
        map_forget(map);
}

static void
map_on_read(struct vg_cl_object *event, cl_int status, void *data)
{
    struct vg_cl_map *map = data;
    struct vg_cl_object *mem = map->mem;

    (void)event;
    (void)status;
    vg_cl_lock();
    bool is_left = map->is_left;
    map->is_pending = false;
    vg_cl_unlock();
    if (is_left)
        map_forget(map);
    vg_cl_unuse(mem);
}

/* The vendor writes to a shadow without the program waiting: the shadow stays until that is done,
 * even if the program releases MEM in the meantime. Ends the event unless it is the program's. */
static void
map_await_read(struct vg_cl_enqueue *e, struct vg_cl_object *mem, struct vg_cl_map *map,
               bool is_wanted)
{
    map->mem = vg_cl_use(mem);
    map->is_pending = true;
    if (vg_cl_callback_add(e->cl, e->real, CL_COMPLETE, NULL, map_on_read, map) != CL_SUCCESS) {
        e->cl->clWaitForEvents(1, &e->real);
        map_on_read(NULL, CL_COMPLETE, map);
    }
    if (is_wanted)
        return;
    e->cl->clReleaseEvent(e->real);
    e->real = NULL;
}

static void
map_keep(struct vg_cl_object *mem, struct vg_cl_map *map)
{
    vg_cl_lock();
    map->next = mem->mem.maps;
    mem->mem.maps = map;
    vg_cl_unlock();
    /* What the program writes in its own memory is already there. */
    if ((!(map->flags & CL_MAP_READ) ||
         (map->flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION))) &&
        !map_is_in_place(mem))
        vg_cl_written(mem);
}

/* Ends both kinds of mapping. */
static void *
map_end(struct vg_cl_enqueue *e, struct vg_cl_object *mem, struct vg_cl_map *map, cl_int result,
        cl_command_type command, struct vg_cl_object **event, cl_int *errcode_ret)
{
    result = vg_cl_enqueue_end(e, result, command, event);
    vg_cl_set_error(errcode_ret, result);
    if (result != CL_SUCCESS) {
        if (map)
            map_leave(map);
        return NULL;
    }
    void *pointer = map->pointer;
    map_keep(mem, map);
    return pointer;
}

static cl_int
map_read_buffer(struct vg_cl_enqueue *e, struct vg_cl_object *mem, struct vg_cl_map *map,
                cl_bool blocking)
{
    size_t bytes = 0;

    e->cl->clGetMemObjectInfo(mem->real, CL_MEM_SIZE, sizeof bytes, &bytes, NULL);
    if (map->size == 0 || map->origin[0] > bytes || map->size > bytes - map->origin[0])
        return CL_INVALID_VALUE;
    if (!map_get_shadow(map))
        return CL_MAP_FAILURE;
    if (!blocking)
        e->event = &e->real;
    if ((map->flags & MAP_ALL) == CL_MAP_WRITE_INVALIDATE_REGION)
        return e->cl->clEnqueueMarkerWithWaitList(e->queue, e->n, e->list, e->event);
    return e->cl->clEnqueueReadBuffer(e->queue, mem->real, blocking, map->origin[0], map->size,
                                      map->pointer, e->n, e->list, e->event);
}

void *
vg_cl_EnqueueMapBuffer(struct vg_cl_object *command_queue, struct vg_cl_object *buffer,
                       cl_bool blocking_map, cl_map_flags map_flags, size_t offset, size_t size,
                       cl_uint num_events_in_wait_list, struct vg_cl_object *const *event_wait_list,
                       struct vg_cl_object **event, cl_int *errcode_ret)
{
    struct vg_cl_enqueue e;
    struct vg_cl_map *map = calloc(1, sizeof *map);
    cl_int result =
        vg_cl_enqueue_begin(&e, command_queue, num_events_in_wait_list, event_wait_list, event);

    if (result == CL_SUCCESS)
        result = map_check(command_queue, buffer, map_flags);
    if (result == CL_SUCCESS && !map)
        result = CL_OUT_OF_HOST_MEMORY;
    if (result == CL_SUCCESS) {
        map->flags = map_flags;
        map->origin[0] = offset;
        map->size = size;
        if (buffer->mem.image)
            result = CL_INVALID_MEM_OBJECT;
        else if (map_is_in_place(buffer) || map_is_closed(buffer))
            map->pointer = e.cl->clEnqueueMapBuffer(e.queue, buffer->real, blocking_map, map_flags,
                                                    offset, size, e.n, e.list, e.event, &result);
        else
            result = map_read_buffer(&e, buffer, map, blocking_map);
        if (result == CL_SUCCESS && map->is_shadow && !blocking_map)
            map_await_read(&e, buffer, map, event != NULL);
    }
    return map_end(&e, buffer, map, result, CL_COMMAND_MAP_BUFFER, event, errcode_ret);
}

static cl_int
map_read_image(struct vg_cl_enqueue *e, struct vg_cl_object *mem, struct vg_cl_map *map,
               cl_bool blocking)
{
    size_t element = 0;

    e->cl->clGetImageInfo(mem->real, CL_IMAGE_ELEMENT_SIZE, sizeof element, &element, NULL);
    bool is_flat_array = mem->mem.kind == CL_MEM_OBJECT_IMAGE1D_ARRAY;
    map->row_pitch = map->region[0] * element;
    map->slice_pitch = is_flat_array ? map->row_pitch : map->row_pitch * map->region[1];
    map->size = map->row_pitch * map->region[1] * map->region[2];
    if (map->size == 0)
        return CL_INVALID_VALUE;
    if (!map_get_shadow(map))
        return CL_MAP_FAILURE;
    if (!blocking)
        e->event = &e->real;
    /* Also if everything will be overwritten, because this checks the region. */
    return e->cl->clEnqueueReadImage(e->queue, mem->real, blocking, map->origin, map->region,
                                     map->row_pitch,
                                     is_flat_array || map->region[2] > 1 ? map->slice_pitch : 0,
                                     map->pointer, e->n, e->list, e->event);
}

static void
map_report_pitches(const struct vg_cl_object *image, const struct vg_cl_map *map, size_t *row,
                   size_t *slice)
{
    cl_mem_object_type kind = image->mem.kind;
    bool has_slices = kind == CL_MEM_OBJECT_IMAGE3D || kind == CL_MEM_OBJECT_IMAGE2D_ARRAY ||
                      kind == CL_MEM_OBJECT_IMAGE1D_ARRAY;

    *row = map->row_pitch;
    if (slice)
        *slice = has_slices ? map->slice_pitch : 0;
}

void *
vg_cl_EnqueueMapImage(struct vg_cl_object *command_queue, struct vg_cl_object *image,
                      cl_bool blocking_map, cl_map_flags map_flags, const size_t *origin,
                      const size_t *region, size_t *image_row_pitch, size_t *image_slice_pitch,
                      cl_uint num_events_in_wait_list, struct vg_cl_object *const *event_wait_list,
                      struct vg_cl_object **event, cl_int *errcode_ret)
{
    struct vg_cl_enqueue e;
    struct vg_cl_map *map = calloc(1, sizeof *map);
    cl_int result =
        vg_cl_enqueue_begin(&e, command_queue, num_events_in_wait_list, event_wait_list, event);

    if (result == CL_SUCCESS)
        result = map_check(command_queue, image, map_flags);
    if (result == CL_SUCCESS && !map)
        result = CL_OUT_OF_HOST_MEMORY;
    if (result == CL_SUCCESS && (!origin || !region || !image_row_pitch))
        result = CL_INVALID_VALUE;
    if (result == CL_SUCCESS && !image->mem.image)
        result = CL_INVALID_MEM_OBJECT;
    if (result == CL_SUCCESS) {
        map->flags = map_flags;
        for (int i = 0; i < 3; i++) {
            map->origin[i] = origin[i];
            map->region[i] = region[i];
        }
        if (map_is_in_place(image) || map_is_closed(image))
            map->pointer = e.cl->clEnqueueMapImage(
                e.queue, image->real, blocking_map, map_flags, origin, region, image_row_pitch,
                image_slice_pitch, e.n, e.list, e.event, &result);
        else
            result = map_read_image(&e, image, map, blocking_map);
        if (result == CL_SUCCESS && map->is_shadow && !blocking_map)
            map_await_read(&e, image, map, event != NULL);
        if (result == CL_SUCCESS && map->is_shadow)
            map_report_pitches(image, map, image_row_pitch, image_slice_pitch);
    }
    return map_end(&e, image, map, result, CL_COMMAND_MAP_IMAGE, event, errcode_ret);
}

/* ---- unmapping ---- */

static struct vg_cl_map *
map_take(struct vg_cl_object *mem, const void *pointer)
{
    struct vg_cl_map *found = NULL;

    vg_cl_lock();
    for (struct vg_cl_map **link = &mem->mem.maps; *link && !found; link = &(*link)->next)
        if ((*link)->pointer == pointer) {
            found = *link;
            *link = found->next;
            break;
        }
    vg_cl_unlock();
    return found;
}

static void
map_on_written(struct vg_cl_object *event, cl_int status, void *data)
{
    (void)event;
    (void)status;
    map_leave(data);
}

static cl_int
map_write(struct vg_cl_enqueue *e, struct vg_cl_object *mem, const struct vg_cl_map *map)
{
    if (!(map->flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION)))
        return e->cl->clEnqueueMarkerWithWaitList(e->queue, e->n, e->list, &e->real);
    if (!mem->mem.image)
        return e->cl->clEnqueueWriteBuffer(e->queue, mem->real, CL_FALSE, map->origin[0], map->size,
                                           map->pointer, e->n, e->list, &e->real);
    return e->cl->clEnqueueWriteImage(
        e->queue, mem->real, CL_FALSE, map->origin, map->region, map->row_pitch,
        map->region[2] > 1 || mem->mem.kind == CL_MEM_OBJECT_IMAGE1D_ARRAY ? map->slice_pitch : 0,
        map->pointer, e->n, e->list, &e->real);
}

/* The shadow must exist until the command has read it, so an event is always needed. */
static cl_int
map_unmap_shadow(struct vg_cl_enqueue *e, struct vg_cl_object *mem, struct vg_cl_map *map,
                 struct vg_cl_object **event)
{
    cl_int result = map_write(e, mem, map);

    if (result != CL_SUCCESS) {
        map_keep(mem, map);
        return vg_cl_enqueue_end(e, result, CL_COMMAND_UNMAP_MEM_OBJECT, event);
    }
    vg_cl_written(mem);
    if (vg_cl_callback_add(e->cl, e->real, CL_COMPLETE, NULL, map_on_written, map) != CL_SUCCESS) {
        e->cl->clWaitForEvents(1, &e->real);
        map_leave(map);
    }
    if (event)
        return vg_cl_enqueue_end(e, result, CL_COMMAND_UNMAP_MEM_OBJECT, event);
    e->cl->clFlush(e->queue);
    e->cl->clReleaseEvent(e->real);
    e->real = NULL;
    return vg_cl_enqueue_end(e, result, CL_COMMAND_UNMAP_MEM_OBJECT, NULL);
}

cl_int
vg_cl_EnqueueUnmapMemObject(struct vg_cl_object *command_queue, struct vg_cl_object *memobj,
                            void *mapped_ptr, cl_uint num_events_in_wait_list,
                            struct vg_cl_object *const *event_wait_list,
                            struct vg_cl_object **event)
{
    struct vg_cl_enqueue e;
    struct vg_cl_map *map = NULL;
    cl_int result =
        vg_cl_enqueue_begin(&e, command_queue, num_events_in_wait_list, event_wait_list, event);

    if (result == CL_SUCCESS && !memobj)
        result = CL_INVALID_MEM_OBJECT;
    if (result == CL_SUCCESS) {
        map = map_take(memobj, mapped_ptr);
        result = map ? CL_SUCCESS : CL_INVALID_VALUE;
    }
    if (result == CL_SUCCESS && map->is_shadow)
        return map_unmap_shadow(&e, memobj, map, event);
    if (result == CL_SUCCESS) {
        result =
            e.cl->clEnqueueUnmapMemObject(e.queue, memobj->real, mapped_ptr, e.n, e.list, e.event);
        if (result == CL_SUCCESS)
            free(map);
        else
            map_keep(memobj, map);
    }
    return vg_cl_enqueue_end(&e, result, CL_COMMAND_UNMAP_MEM_OBJECT, event);
}
