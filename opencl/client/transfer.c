/* SPDX-License-Identifier: Apache-2.0
 *
 * The data of all commands on memory.
 */
#include "config.h"

#include <stdlib.h>

#include "opencl/client/memory.h"
#include "opencl/client/private.h"

/* Bytes of shared memory for blocking writes that are not waited for. More memory would not be in a
 * cache, or never touched before, and a copy to it takes longer than the wait. */
#define TRANSFER_AHEAD ((size_t)4 << 20)

/* Returns whether earlier writes have filled the shared memory that a write should use. */
static bool
transfer_is_ahead(const struct vg_wire_call *call)
{
    return call->area &&
           vg_wire_link_where(&call->client->link, call->area) + call->data_size > TRANSFER_AHEAD;
}

void *
vg_wire_memory_put_data(struct vg_wire_call *call, const struct vg_wire_rows *rows)
{
    size_t size = vg_wire_rows_size(rows);
    bool is_one = vg_wire_rows_are_one(rows);
    void *all = NULL;

    call->data_size = size;
    call->area = vg_wire_stage(call->client, size);
    call->has_area = call->area;
    if (call->area) {
        if (is_one)
            vg_wire_copier_copy(&call->client->copier, call->area, rows->at, size);
        else
            vg_wire_rows_gather(rows, call->area);
        return NULL;
    }
    if (!is_one && !(all = malloc(size)))
        call->out.is_bad = true;
    if (all)
        vg_wire_rows_gather(rows, all);
    call->data = is_one ? rows->at : all;
    return all;
}

cl_int
vg_wire_memory_read(struct vg_wire_call *call, const struct vg_wire_rows *rows, cl_bool blocking,
                    cl_uint n, const cl_event *list, cl_event *event)
{
    size_t size = vg_wire_rows_size(rows);
    bool is_one = vg_wire_rows_are_one(rows);
    unsigned char *area = vg_wire_stage(call->client, size);
    void *all = blocking && !is_one && !area ? malloc(size) : NULL;
    uint64_t token = blocking ? 0 : vg_wire_expect_read(call->client, rows, area);

    vg_wire_put(&call->out, token);
    vg_wire_put(&call->out, n);
    vg_wire_put_objects(call, n, list);
    struct vg_wire_object *made = vg_wire_new_event(call, event);
    call->token = token;
    call->area = area;
    call->has_area = area && !token;
    call->sink = is_one ? rows->at : all;
    call->sink_size = blocking || area ? size : 0;
    call->flags = blocking ? VG_WIRE_WAITS : 0;
    bool has_room = blocking ? area || call->sink : token != 0;
    cl_int result = (event && !made) || !has_room ? CL_OUT_OF_HOST_MEMORY : vg_wire_call_ask(call);
    if (result == CL_SUCCESS && blocking && call->got != size)
        result = VG_WIRE_BROKEN;
    if (result == CL_SUCCESS && blocking && area && is_one)
        vg_wire_copier_copy(&call->client->copier, rows->at, area, size);
    else if (result == CL_SUCCESS && blocking && (area || all))
        vg_wire_rows_scatter(rows, area ? area : all);
    if (result != CL_SUCCESS && token)
        vg_wire_forget_read(call->client, token);
    vg_wire_call_end(call);
    free(all);
    if (result == CL_SUCCESS && blocking && call->lead->order == VG_WIRE_ORDER_IN)
        result = vg_wire_settle(call->client, call->lead->serial, 0, call->number);
    vg_wire_note_event(made, call);
    if (result == CL_SUCCESS && event)
        *event = (cl_event)made;
    else
        vg_wire_free(made);
    return result;
}

cl_int
vg_wire_memory_write(struct vg_wire_call *call, const struct vg_wire_rows *rows, cl_bool blocking,
                     cl_uint n, const cl_event *list, cl_event *event)
{
    vg_wire_put(&call->out, blocking);
    vg_wire_put(&call->out, n);
    vg_wire_put_objects(call, n, list);
    struct vg_wire_object *made = vg_wire_new_event(call, event);
    void *all = rows->at ? vg_wire_memory_put_data(call, rows) : NULL;
    call->flags = blocking ? VG_WIRE_WAITS : 0;
    if (blocking && transfer_is_ahead(call))
        call->is_later = false;
    uint64_t last = vg_wire_last(call->client);
    cl_int result = vg_wire_call_enqueued(call, made, event);
    free(all);
    if (result == CL_SUCCESS && blocking && call->lead->order == VG_WIRE_ORDER_IN)
        result = vg_wire_settle(call->client, call->lead->serial, 0, last);
    return result;
}

cl_int
vg_wire_memory_refuse(cl_command_queue queue, cl_mem mem, cl_mem_flags forbidden)
{
    const struct vg_wire_object *object = vg_wire_object(mem);

    if (vg_wire_object(queue)->context != object->context)
        return CL_INVALID_CONTEXT;
    return object->mem.flags & forbidden ? CL_INVALID_OPERATION : CL_INVALID_VALUE;
}

bool
vg_wire_memory_is_nothing(cl_mem buffer, size_t offset, size_t size, const void *ptr)
{
    return ptr && size == 0 && offset <= vg_wire_object(buffer)->mem.size;
}

cl_int
vg_wire_memory_do_nothing(cl_command_queue queue, cl_mem buffer, cl_mem_flags forbidden,
                          cl_bool is_blocking, cl_uint n, const cl_event *list, cl_event *event)
{
    const cl_icd_dispatch *cl = vg_wire_object(queue)->dispatch;
    const struct vg_wire_object *object = vg_wire_object(buffer);
    cl_event own = NULL, *done = event ? event : is_blocking ? &own : NULL;

    if (vg_wire_object(queue)->context != object->context || (object->mem.flags & forbidden))
        return vg_wire_memory_refuse(queue, buffer, forbidden);
    cl_int result = cl->clEnqueueMarkerWithWaitList(queue, n, list, done);
    if (result == CL_SUCCESS && is_blocking)
        result = cl->clWaitForEvents(1, done);
    if (own)
        cl->clReleaseEvent(own);
    return result;
}

bool
vg_wire_memory_is_inside(cl_mem buffer, size_t offset, size_t size, const void *ptr)
{
    size_t all = vg_wire_object(buffer)->mem.size;

    return ptr && size > 0 && offset <= all && size <= all - offset;
}

void
vg_wire_memory_put_buffer(struct vg_wire_call *call, cl_command_queue queue, cl_mem buffer,
                          size_t offset, size_t size)
{
    vg_wire_put(&call->out, offset);
    vg_wire_put(&call->out, size);
    vg_wire_put_object(call, queue);
    vg_wire_put_object(call, buffer);
}

struct vg_wire_rows
vg_wire_memory_one_row(const void *at, size_t size)
{
    return (struct vg_wire_rows){(unsigned char *)(uintptr_t)at, size, 1, 1, size, size};
}

void
vg_wire_memory_put_image(struct vg_wire_call *call, cl_command_queue queue, cl_mem image,
                         const size_t *origin, const size_t *region)
{
    vg_wire_put_object(call, queue);
    vg_wire_put_object(call, image);
    vg_wire_put_list(&call->out, origin, 3 * sizeof *origin);
    vg_wire_put_list(&call->out, region, 3 * sizeof *region);
}
