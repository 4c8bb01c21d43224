/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that a client maps: it gets a copy of what is mapped here, and its writes arrive when the
 * mapping ends.
 */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>

#include "opencl/icd/entries.h"
#include "opencl/serve/handwritten.h"
#include "opencl/serve/memory.h"
#include "opencl/serve/private.h"

#define CL vg_cl_dispatch

struct serve_map_kept {
    struct serve_map_kept *next;
    uint64_t number;
    cl_mem mem;
    void *pointer;
    struct vg_wire_rows rows;
    bool is_written;
};

/* A process has one client. */
static struct serve_map_kept *serve_map_all;
static pthread_mutex_t serve_map_lock = PTHREAD_MUTEX_INITIALIZER;

static void
serve_map_free(struct vg_serve *serve, struct serve_map_kept *map)
{
    vg_serve_unmap_bytes(serve, vg_wire_rows_size(&map->rows));
    vg_serve_leave_place(serve);
    free(map);
}

static void
serve_map_keep(struct serve_map_kept *map)
{
    pthread_mutex_lock(&serve_map_lock);
    map->next = serve_map_all;
    serve_map_all = map;
    pthread_mutex_unlock(&serve_map_lock);
}

static struct serve_map_kept *
serve_map_take(uint64_t number, cl_mem mem)
{
    struct serve_map_kept *found = NULL;

    pthread_mutex_lock(&serve_map_lock);
    for (struct serve_map_kept **link = &serve_map_all; *link; link = &(*link)->next)
        if ((*link)->number == number && (*link)->mem == mem) {
            found = *link;
            *link = found->next;
            break;
        }
    pthread_mutex_unlock(&serve_map_lock);
    return found;
}

void
vg_serve_drop_maps(struct vg_serve *serve, const void *mem)
{
    struct serve_map_kept *dropped = NULL;

    pthread_mutex_lock(&serve_map_lock);
    for (struct serve_map_kept **link = &serve_map_all; *link;) {
        struct serve_map_kept *map = *link;
        if (mem && map->mem != mem) {
            link = &map->next;
            continue;
        }
        *link = map->next;
        map->next = dropped;
        dropped = map;
    }
    pthread_mutex_unlock(&serve_map_lock);
    while (dropped) {
        struct serve_map_kept *map = dropped;
        dropped = map->next;
        vg_serve_cancel_reads(serve, map->pointer);
        serve_map_free(serve, map);
    }
}

struct serve_map_wanted {
    uint64_t number;
    cl_map_flags flags;
    bool is_blocking;
};

static void
serve_map_begin(struct vg_serve_call *call, struct serve_map_wanted *mapping,
                struct vg_serve_command *c)
{
    mapping->number = vg_wire_get(&call->in);
    mapping->flags = vg_wire_get(&call->in);
    mapping->is_blocking = vg_wire_get(&call->in);
    vg_serve_command_begin(call, c);
    /* The returned data must be complete. */
    if (!c->token)
        mapping->is_blocking = true;
}

/* Returns whether the client may map this much more, of which there may be a copy. */
static bool
serve_map_may(struct vg_serve_call *call, size_t size)
{
    if (!vg_serve_take_place(call->serve))
        return false;
    if (vg_serve_await_bytes(call->serve, size)) {
        vg_serve_map_bytes(call->serve, size);
        return true;
    }
    vg_serve_leave_place(call->serve);
    return false;
}

/* Sends what is mapped, or announces it. */
static void
serve_map_send(struct vg_serve_call *call, struct vg_serve_command *c)
{
    size_t size = vg_wire_rows_size(&c->rows);

    if (c->token) {
        if (!vg_serve_read_later(call, c->token, c->made, &c->rows, NULL))
            call->in.is_bad = true;
        return;
    }
    void *all = call->room && call->room_size == size ? call->room : vg_serve_memory(call, size);
    if (all)
        vg_wire_rows_gather(&c->rows, all);
    call->answer = all;
    call->answer_size = size;
}

/* Stores a mapping of the memory MEM with ID, and answers. */
static cl_int
serve_map_end(struct vg_serve_call *call, const struct serve_map_wanted *mapping,
              struct vg_serve_command *c, cl_command_queue queue, cl_mem mem, uint64_t id,
              void *pointer, cl_int result)
{
    struct serve_map_kept *map = result == CL_SUCCESS ? malloc(sizeof *map) : NULL;

    if (result == CL_SUCCESS && !map)
        result = CL_OUT_OF_HOST_MEMORY;
    if (map) {
        c->rows.at = pointer;
        *map = (struct serve_map_kept){
            NULL,    mapping->number,
            mem,     pointer,
            c->rows, mapping->flags & (CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION)};
        serve_map_send(call, c);
        serve_map_keep(map);
        /* The client may have released it during the wait. */
        if (call->is_beside && !vg_serve_has(call->serve, id, VG_CL_MEM, mem))
            vg_serve_drop_maps(call->serve, mem);
    } else {
        vg_serve_unmap_bytes(call->serve, vg_wire_rows_size(&c->rows));
        vg_serve_leave_place(call->serve);
    }
    vg_serve_made_event(call, c->id, queue, c->made, result);
    return result;
}

cl_int
vg_serve_EnqueueMapBuffer(struct vg_serve_call *call)
{
    size_t offset = vg_wire_get(&call->in), size = vg_wire_get(&call->in);
    cl_command_queue queue = vg_serve_object(call, VG_CL_QUEUE);
    uint64_t id;
    cl_mem buffer = vg_serve_leaving(call, VG_CL_MEM, &id);
    struct serve_map_wanted mapping;
    struct vg_serve_command c;
    cl_int error = CL_SUCCESS;

    serve_map_begin(call, &mapping, &c);
    vg_serve_command_rows(&c, NULL, size, 1, 1);
    if (call->in.is_bad || vg_wire_rows_size(&c.rows) == 0)
        return CL_INVALID_VALUE;
    if (!serve_map_may(call, size))
        return CL_OUT_OF_HOST_MEMORY;
    void *pointer =
        CL.clEnqueueMapBuffer(queue, buffer, mapping.is_blocking, mapping.flags, offset, size, c.n,
                              c.list, vg_serve_command_event(&c, c.token), &error);
    return serve_map_end(call, &mapping, &c, queue, buffer, id, pointer, error);
}

cl_int
vg_serve_EnqueueMapImage(struct vg_serve_call *call)
{
    struct vg_serve_part part;
    struct serve_map_wanted mapping;
    struct vg_serve_command c;
    size_t row_pitch = 0, slice_pitch = 0;
    cl_mem_object_type type = 0;
    cl_int error = CL_SUCCESS;

    vg_serve_part_begin(call, &part);
    serve_map_begin(call, &mapping, &c);
    if (!vg_serve_part_rows(call, &part, &c) || vg_wire_rows_size(&c.rows) == 0)
        return CL_INVALID_MEM_OBJECT;
    if (!serve_map_may(call, vg_wire_rows_size(&c.rows)))
        return CL_OUT_OF_HOST_MEMORY;
    void *pointer = CL.clEnqueueMapImage(part.queue, part.image, mapping.is_blocking, mapping.flags,
                                         part.origin, part.region, &row_pitch, &slice_pitch, c.n,
                                         c.list, vg_serve_command_event(&c, c.token), &error);
    CL.clGetMemObjectInfo(part.image, CL_MEM_TYPE, sizeof type, &type, NULL);
    c.rows.row_pitch = type == CL_MEM_OBJECT_IMAGE1D_ARRAY ? slice_pitch : row_pitch;
    c.rows.slice_pitch = slice_pitch;
    return serve_map_end(call, &mapping, &c, part.queue, part.image, part.id, pointer, error);
}

cl_int
vg_serve_EnqueueUnmapMemObject(struct vg_serve_call *call)
{
    uint64_t number = vg_wire_get(&call->in);
    cl_command_queue queue = vg_serve_object(call, VG_CL_QUEUE);
    cl_mem mem = vg_serve_object(call, VG_CL_MEM);
    struct vg_serve_command c;

    vg_serve_command_begin(call, &c);
    struct serve_map_kept *map = call->in.is_bad ? NULL : serve_map_take(number, mem);
    if (!map)
        return CL_INVALID_VALUE;
    size_t size = map->is_written ? vg_wire_rows_size(&map->rows) : 0;
    /* No data: nothing was written. */
    if (call->head.data && call->head.data != size) {
        call->in.is_bad = true;
        serve_map_keep(map);
        return CL_INVALID_VALUE;
    }
    vg_serve_cancel_reads(call->serve, map->pointer);
    if (call->head.data)
        vg_wire_rows_scatter(&map->rows, call->data);
    cl_int result = CL.clEnqueueUnmapMemObject(queue, mem, map->pointer, c.n, c.list,
                                               vg_serve_command_event(&c, false));
    if (result == CL_SUCCESS)
        serve_map_free(call->serve, map);
    else
        serve_map_keep(map);
    vg_serve_made_event(call, c.id, queue, c.made, result);
    return result;
}
