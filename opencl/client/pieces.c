/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/client/pieces.h"

#include "opencl/client/memory.h"
#include "opencl/client/private.h"

/* Bytes per piece. It is larger if the two sides would have to take turns on the processors. */
#define PIECES_EACH     ((size_t)1 << 20)
#define PIECES_EACH_FEW ((size_t)4 << 20)
#define PIECES_AHEAD    4 /* number of concurrent reads */

static size_t
pieces_each(void)
{
    return vg_wire_link_processors() < 4 ? PIECES_EACH_FEW : PIECES_EACH;
}

/* Returns whether the commands of QUEUE run in order. This is queried once. */
static bool
pieces_is_in_order(cl_command_queue queue)
{
    struct vg_wire_object *object = vg_wire_object(queue);
    cl_command_queue_properties properties = 0;

    if (object->order == VG_WIRE_ORDER_UNKNOWN) {
        cl_int result = object->dispatch->clGetCommandQueueInfo(
            queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL);
        bool is_in = result == CL_SUCCESS && !(properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
        object->order = is_in ? VG_WIRE_ORDER_IN : VG_WIRE_ORDER_OUT;
    }
    return object->order == VG_WIRE_ORDER_IN;
}

bool
vg_wire_pieces_can(cl_command_queue queue, size_t size, cl_uint n_events, bool has_event)
{
    return size >= 2 * pieces_each() && n_events == 0 && !has_event &&
           vg_wire_object(queue)->client->link.shared && pieces_is_in_order(queue);
}

cl_int
vg_wire_pieces_write(cl_command_queue queue, cl_mem buffer, bool is_blocking, size_t offset,
                     size_t size, const void *from)
{
    const size_t most = pieces_each();
    cl_int result = CL_SUCCESS;

    for (size_t done = 0, each; done < size && result == CL_SUCCESS; done += each) {
        struct vg_wire_call call;
        each = size - done < most ? size - done : most;
        bool is_asked = is_blocking && done + each == size;
        struct vg_wire_rows rows = vg_wire_memory_one_row((const char *)from + done, each);
        vg_wire_call_begin(&call, queue, VG_WIRE_OP_EnqueueWriteBuffer);
        vg_wire_memory_put_buffer(&call, queue, buffer, offset + done, each);
        call.is_later = !is_asked;
        result = vg_wire_memory_write(&call, &rows, is_asked, 0, NULL, NULL);
    }
    return result;
}

/* Requests a piece, which is read into TO. */
static cl_int
pieces_begin_read(struct vg_wire_call *call, cl_command_queue queue, cl_mem buffer, size_t offset,
                  size_t size, unsigned char *to)
{
    vg_wire_call_begin(call, queue, VG_WIRE_OP_EnqueueReadBuffer);
    vg_wire_memory_put_buffer(call, queue, buffer, offset, size);
    vg_wire_put(&call->out, 0); /* blocking, */
    vg_wire_put(&call->out, 0); /* without events to wait for */
    vg_wire_put_objects(call, 0, NULL);
    vg_wire_put(&call->out, 0);
    call->area = vg_wire_stage(call->client, size);
    call->has_area = call->area;
    call->sink = to;
    call->sink_size = size;
    call->flags = VG_WIRE_WAITS;
    cl_int result = vg_wire_call_send(call);
    if (result != CL_SUCCESS)
        vg_wire_call_end(call);
    return result;
}

static cl_int
pieces_end_read(struct vg_wire_call *call)
{
    cl_int result = vg_wire_call_wait(call);

    if (result == CL_SUCCESS && call->got != call->sink_size)
        result = VG_WIRE_BROKEN;
    if (result == CL_SUCCESS && call->area)
        vg_wire_copier_copy(&call->client->copier, call->sink, call->area, call->sink_size);
    vg_wire_call_end(call);
    return result;
}

cl_int
vg_wire_pieces_read(cl_command_queue queue, cl_mem buffer, size_t offset, size_t size, void *to)
{
    struct vg_wire_call calls[PIECES_AHEAD];
    const size_t most = pieces_each();
    size_t n = (size + most - 1) / most, begun = 0, done = 0;
    cl_int result = CL_SUCCESS;

    while (done < begun || (begun < n && result == CL_SUCCESS)) {
        if (begun < n && begun - done < PIECES_AHEAD && result == CL_SUCCESS) {
            size_t at = begun * most;
            size_t each = size - at < most ? size - at : most;
            result = pieces_begin_read(&calls[begun % PIECES_AHEAD], queue, buffer, offset + at,
                                       each, (unsigned char *)to + at);
            begun += result == CL_SUCCESS;
            continue;
        }
        cl_int ended = pieces_end_read(&calls[done++ % PIECES_AHEAD]);
        result = result == CL_SUCCESS ? ended : result;
    }
    return result;
}
