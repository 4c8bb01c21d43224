/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/wire/serve.h"

#include <stdlib.h>
#include <string.h>

#include "opencl/icd/entries.h"
#include "opencl/icd/say.h"
#include "opencl/track/callback.h"
#include "opencl/track/clock.h"
#include "opencl/track/memory.h"
#include "opencl/wire/serve-meter.h"
#include "opencl/wire/serve-private.h"
#include "opencl/wire/serve-turn.h"

#define SERVE_THREADS_MAX 512 /* of calls that wait */

/* ---- objects ---- */

void *
vg_serve_memory(struct vg_serve_call *call, size_t size)
{
    void *memory = call->n_owned < sizeof call->owned / sizeof *call->owned
                       ? calloc(1, size ? size : 1)
                       : NULL;

    if (memory)
        call->owned[call->n_owned++] = memory;
    else
        call->in.is_bad = true;
    return memory;
}

static void *
serve_find(struct vg_serve *serve, uint64_t id, enum vg_cl_type type)
{
    void *handle = NULL;

    pthread_mutex_lock(&serve->lock);
    if (id != 0 && id < serve->n_slots && serve->slots[id].type == type)
        handle = serve->slots[id].handle;
    pthread_mutex_unlock(&serve->lock);
    return handle;
}

cl_command_queue
vg_serve_next_queue(struct vg_serve *serve, uint64_t *at)
{
    cl_command_queue queue = NULL;

    pthread_mutex_lock(&serve->lock);
    for (; *at < serve->n_slots && !queue; *at += !queue)
        if (serve->slots[*at].type == VG_CL_QUEUE)
            queue = serve->slots[*at].handle;
    if (queue && vg_cl_dispatch.clRetainCommandQueue(queue) != CL_SUCCESS)
        queue = NULL;
    pthread_mutex_unlock(&serve->lock);
    return queue;
}

void *
vg_serve_object(struct vg_serve_call *call, enum vg_cl_type type)
{
    return serve_find(call->serve, vg_wire_get(&call->in), type);
}

void *
vg_serve_objects(struct vg_serve_call *call, enum vg_cl_type type, uint64_t n)
{
    const uint64_t *ids = vg_wire_get_array(&call->in, n, sizeof *ids);
    void **handles = ids ? vg_serve_memory(call, n * sizeof *handles) : NULL;

    for (uint64_t i = 0; handles && i < n; i++)
        handles[i] = serve_find(call->serve, ids[i], type);
    return handles;
}

const char **
vg_serve_strings(struct vg_serve_call *call, uint64_t n)
{
    if (vg_wire_get(&call->in) == VG_WIRE_NONE)
        return NULL;
    if (n > (size_t)(call->in.end - call->in.at) / sizeof(uint64_t)) {
        call->in.is_bad = true;
        return NULL;
    }
    const char **strings = vg_serve_memory(call, n * sizeof *strings);
    for (uint64_t i = 0; strings && i < n; i++) {
        strings[i] = vg_wire_get_string(&call->in);
        if (!strings[i])
            call->in.is_bad = true;
    }
    return strings;
}

const void *
vg_serve_pairs(struct vg_serve_call *call)
{
    size_t size;
    const uint64_t *pairs = vg_wire_get_list(&call->in, &size);
    size_t n = size / sizeof *pairs;

    /* Names and values, and the 0 at the end. */
    if (pairs && (size % sizeof *pairs || n % 2 == 0 || pairs[n - 1] != 0))
        call->in.is_bad = true;
    return call->in.is_bad ? NULL : pairs;
}

void *
vg_serve_leaving(struct vg_serve_call *call, enum vg_cl_type type, uint64_t *id)
{
    *id = vg_wire_get(&call->in);
    return serve_find(call->serve, *id, type);
}

void
vg_serve_value_begin(struct vg_serve_call *call, struct vg_serve_value *value)
{
    uint64_t room = vg_wire_get(&call->in);

    *value = (struct vg_serve_value){.has = SIZE_MAX};
    if (room == VG_WIRE_NONE || call->in.is_bad)
        return;
    value->size = room < VG_SERVE_VALUE_MAX ? room : VG_SERVE_VALUE_MAX;
    value->bytes = vg_serve_memory(call, value->size);
}

cl_int
vg_serve_value_end(struct vg_serve_call *call, const struct vg_serve_value *value, cl_int result)
{
    bool is_there = result == CL_SUCCESS && value->bytes;

    vg_wire_put(&call->out, value->has);
    vg_wire_put_list(&call->out, is_there ? value->bytes : NULL,
                     value->has < value->size ? value->has : value->size);
    return result;
}

uint64_t
vg_serve_new(struct vg_serve_call *call)
{
    struct vg_serve *serve = call->serve;
    uint64_t id = vg_wire_get(&call->in);

    pthread_mutex_lock(&serve->lock);
    if (id >= VG_WIRE_IDS_MAX) {
        call->in.is_bad = true;
    } else if (id >= serve->n_slots) {
        uint64_t n = id * 2 < VG_WIRE_IDS_MAX ? id * 2 + 64 : VG_WIRE_IDS_MAX;
        struct serve_slot *more = realloc(serve->slots, n * sizeof *more);
        if (more) {
            memset(more + serve->n_slots, 0, (n - serve->n_slots) * sizeof *more);
            serve->slots = more;
            serve->n_slots = n;
        } else {
            call->in.is_bad = true;
        }
    }
    if (!call->in.is_bad && id && serve->slots[id].type != VG_CL_NONE)
        call->in.is_bad = true;
    if (!call->in.is_bad && id && serve->n_objects >= serve->limits.objects) {
        call->refused = CL_OUT_OF_HOST_MEMORY;
        call->in.is_bad = true;
    }
    pthread_mutex_unlock(&serve->lock);
    return call->in.is_bad ? 0 : id;
}

static void
serve_put(struct vg_serve *serve, uint64_t id, enum vg_cl_type type, void *handle)
{
    pthread_mutex_lock(&serve->lock);
    serve->slots[id] = (struct serve_slot){handle, type};
    serve->n_objects++;
    pthread_mutex_unlock(&serve->lock);
}

void
vg_serve_made(struct vg_serve_call *call, uint64_t id, enum vg_cl_type type, void *handle)
{
    if (id && handle)
        serve_put(call->serve, id, type, handle);
}

cl_event *
vg_serve_event(const struct vg_serve_call *call, uint64_t id, cl_event *made)
{
    return id || call->is_metered ? made : NULL;
}

void
vg_serve_made_event(struct vg_serve_call *call, uint64_t id, cl_command_queue queue, cl_event event,
                    cl_int result)
{
    cl_context context = NULL;

    if (result == CL_SUCCESS)
        vg_serve_meter_given(call, queue, event);
    if (!id && event)
        vg_cl_dispatch.clReleaseEvent(event);
    if (!id)
        return;
    if (result != CL_SUCCESS && (call->head.flags & VG_WIRE_LATER) && !event) {
        vg_cl_dispatch.clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof context, &context,
                                             NULL);
        event = vg_cl_dispatch.clCreateUserEvent(context, NULL);
        if (event)
            vg_cl_dispatch.clSetUserEventStatus(event, result);
    }
    vg_serve_made(call, id, VG_CL_EVENT, event);
}

void
vg_serve_forget(struct vg_serve_call *call, uint64_t id)
{
    struct vg_serve *serve = call->serve;

    pthread_mutex_lock(&serve->lock);
    if (id > serve->n_roots && id < serve->n_slots) {
        serve->n_objects -= serve->slots[id].type != VG_CL_NONE;
        serve->slots[id] = (struct serve_slot){NULL, VG_CL_NONE};
    }
    pthread_mutex_unlock(&serve->lock);
}

void *
vg_serve_root(struct vg_serve *serve, uint64_t id)
{
    return id >= 1 && id <= serve->n_roots ? serve->slots[id].handle : NULL;
}

uint64_t
vg_serve_id_of(struct vg_serve *serve, const void *root)
{
    for (uint64_t id = 1; id <= serve->n_roots; id++)
        if (serve->slots[id].handle == root)
            return id;
    return 0;
}

/* ---- calls ---- */

static void
serve_free(struct vg_serve_call *call)
{
    while (call->n_owned)
        free(call->owned[--call->n_owned]);
    vg_wire_out_end(&call->out);
    free(call->body);
    vg_serve_free_data(call->serve, call->data, call->head.data);
    free(call);
}

/* An error of what the client did not wait for comes with what it waits for. */
static cl_int
serve_tell_late(struct vg_serve_call *call, cl_int result)
{
    struct vg_serve *serve = call->serve;
    bool is_late = call->head.flags & VG_WIRE_LATER;

    pthread_mutex_lock(&serve->lock);
    if (is_late && result != CL_SUCCESS && serve->late == CL_SUCCESS)
        serve->late = result;
    if (!is_late && result == CL_SUCCESS && vg_wire_is_synchronising(call->head.op)) {
        result = serve->late;
        serve->late = CL_SUCCESS;
    }
    pthread_mutex_unlock(&serve->lock);
    return result;
}

static void *
serve_do(void *data)
{
    struct vg_serve_call *call = data;
    struct vg_serve *serve = call->serve;

    vg_serve_meter_came(call);
    bool is_in = !call->refused && vg_serve_turn_enter(serve->turn, call->head.op);
    if (!is_in && !call->refused)
        call->refused = CL_OUT_OF_RESOURCES;
    call->entered = call->is_metered ? vg_cl_now() : 0;
    cl_int result = is_in ? vg_serve_functions[call->head.op](call) : call->refused;
    vg_serve_meter_back(call);
    if (is_in)
        vg_serve_turn_leave(serve->turn, call->head.op);
    if (call->refused) {
        result = call->refused;
        vg_wire_out_end(&call->out);
    }
    if (call->in.is_bad && !call->refused) {
        pthread_mutex_lock(&serve->lock);
        serve->is_bad = true;
        pthread_mutex_unlock(&serve->lock);
        vg_cl_say("a client sent what is no message: %u", call->head.op);
        vg_serve_break(serve);
    } else {
        result = serve_tell_late(call, result);
        if (!(call->head.flags & VG_WIRE_LATER))
            vg_serve_answer(call, result);
    }
    serve_free(call);
    return NULL;
}

static void *
serve_run(void *data)
{
    struct vg_serve *serve = ((struct vg_serve_call *)data)->serve;

    serve_do(data);
    pthread_mutex_lock(&serve->lock);
    serve->n_threads--;
    pthread_cond_broadcast(&serve->idle);
    pthread_mutex_unlock(&serve->lock);
    return NULL;
}

/* What waits for an event that only the client can set must not be waited for here. */
static void
serve_begin(struct vg_serve_call *call)
{
    struct vg_serve *serve = call->serve;
    pthread_t thread;

    if (vg_cl_user_events_n == 0 || !(call->head.flags & VG_WIRE_WAITS)) {
        serve_do(call);
        return;
    }
    pthread_mutex_lock(&serve->lock);
    if (serve->n_threads >= SERVE_THREADS_MAX)
        call->refused = CL_OUT_OF_RESOURCES;
    serve->n_threads += !call->refused;
    pthread_mutex_unlock(&serve->lock);
    if (call->refused) {
        serve_do(call);
        return;
    }
    if (pthread_create(&thread, NULL, serve_run, call) == 0) {
        pthread_detach(thread);
        return;
    }
    vg_cl_say("there is no thread for a call that waits");
    call->in.is_bad = true;
    vg_serve_break(serve);
    pthread_mutex_lock(&serve->lock);
    serve->n_threads--;
    pthread_mutex_unlock(&serve->lock);
    serve_free(call);
}

/* Takes data for which there is no room off the link. */
static bool
serve_skip_data(struct vg_serve *serve, size_t size)
{
    char bytes[16384];

    for (size_t n; size > 0; size -= n) {
        n = size < sizeof bytes ? size : sizeof bytes;
        if (!vg_wire_link_receive(serve->link, bytes, n))
            return false;
    }
    return true;
}

/* The data of a message, or where the client has them, or room for those of the answer. */
static bool
serve_receive_data(struct vg_serve_call *call)
{
    struct vg_serve *serve = call->serve;
    const uint16_t both = VG_WIRE_STAGED | VG_WIRE_ROOM;
    size_t size = call->head.data;

    if (size == 0 || !(call->head.flags & both)) {
        call->data = size ? vg_serve_take_data(serve, size) : NULL;
        if (call->data || size == 0)
            return vg_wire_link_receive(serve->link, call->data, size);
        call->refused = CL_OUT_OF_HOST_MEMORY;
        return serve_skip_data(serve, size);
    }
    unsigned char *area = vg_wire_link_area(serve->link, call->head.at, size);
    if (!area || (call->head.flags & both) == both) {
        vg_cl_say("a client named memory that is none");
        serve->is_bad = true;
        return false;
    }
    if (call->head.flags & VG_WIRE_STAGED) {
        call->data = area;
    } else {
        call->room = area;
        call->room_size = size;
        call->head.data = 0;
    }
    return true;
}

/* One message as a whole; NULL: there is none any more. */
static struct vg_serve_call *
serve_receive(struct vg_serve *serve)
{
    struct vg_serve_call *call = calloc(1, sizeof *call);
    struct vg_wire_head head;

    if (!call || !vg_wire_link_receive(serve->link, &head, sizeof head)) {
        free(call);
        return NULL;
    }
    vg_wire_out_begin(&call->out);
    call->serve = serve;
    call->head = head;
    bool ok = head.size <= VG_WIRE_BODY_MAX && head.op < VG_WIRE_OPS &&
              vg_serve_functions[head.op] && head.data <= VG_WIRE_DATA_MAX;
    if (!ok) {
        vg_cl_say("a client sent what is no message: %u, %u bytes", head.op, head.size);
        serve->is_bad = true;
    }
    call->body = ok && head.size ? malloc(head.size) : NULL;
    ok = ok && (call->body || !head.size) &&
         vg_wire_link_receive(serve->link, call->body, head.size) && serve_receive_data(call);
    vg_wire_in_begin(&call->in, call->body, ok ? head.size : 0);
    if (ok)
        return call;
    serve_free(call);
    return NULL;
}

static bool
serve_add_root(struct vg_serve *serve, enum vg_cl_type type, void *handle)
{
    struct serve_slot *more = realloc(serve->slots, (serve->n_roots + 2) * sizeof *more);

    if (!more)
        return false;
    serve->slots = more;
    more[0] = (struct serve_slot){NULL, VG_CL_NONE};
    more[++serve->n_roots] = (struct serve_slot){handle, type};
    serve->n_slots = serve->n_roots + 1;
    return true;
}

static bool
serve_add_roots(struct vg_serve *serve)
{
    cl_platform_id platforms[16];
    cl_device_id devices[256];
    cl_uint n = 0, n_devices;
    bool ok = true;

    if (vg_cl_dispatch.clGetPlatformIDs(16, platforms, &n) != CL_SUCCESS)
        n = 0;
    for (cl_uint i = 0; i < n && i < 16; i++) {
        ok = ok && serve_add_root(serve, VG_CL_PLATFORM, platforms[i]);
        if (vg_cl_dispatch.clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 256, devices,
                                          &n_devices) != CL_SUCCESS)
            n_devices = 0;
        for (cl_uint d = 0; d < n_devices && d < 256; d++)
            ok = ok && serve_add_root(serve, VG_CL_DEVICE, devices[d]);
    }
    return ok && n > 0;
}

bool
vg_serve_client(struct vg_wire_link *link, const struct vg_serve_limits *limits)
{
    static struct vg_serve
        the_one; /* a process has one client, whose threads are there to its end */
    struct vg_serve *serve = &the_one;
    struct vg_serve_call *call;

    serve->link = link;
    serve->limits = *limits;
    pthread_mutex_init(&serve->sending, NULL);
    pthread_mutex_init(&serve->lock, NULL);
    pthread_cond_init(&serve->idle, NULL);
    if (!serve_add_roots(serve)) {
        vg_cl_say("there is no device of OpenCL");
        return false;
    }
    if (limits->turns >= 0)
        serve->turn = vg_serve_turn_begin(serve, limits);
    if (limits->turns >= 0 && !serve->turn) {
        vg_cl_say("there is no thread for a client's turns");
        return false;
    }
    /* The first message is the hello. */
    call = serve_receive(serve);
    bool ok = call && call->head.op == VG_WIRE_OP_HELLO && !call->head.flags;
    while (call && ok) {
        serve_begin(call);
        call = serve_receive(serve);
    }
    vg_wire_link_shut(link);
    return ok && !serve->is_bad;
}
