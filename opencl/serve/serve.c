/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/serve/serve.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "opencl/base/say.h"
#include "opencl/icd/entries.h"
#include "opencl/icd/gate.h"
#include "opencl/serve/lent.h"
#include "opencl/serve/meter.h"
#include "opencl/serve/output.h"
#include "opencl/serve/private.h"
#include "opencl/serve/turn.h"
#include "opencl/serve/watch.h"
#include "opencl/track/callback.h"
#include "opencl/track/memory.h"

#define SERVE_THREADS_MAX 512 /* maximum number of waiting calls */
#define SERVE_WHY_DATA    "more data of unfinished commands than its limit"

/* ---- calls ---- */

static void
serve_free(struct vg_serve_call *call)
{
    while (call->n_owned)
        free(call->owned[--call->n_owned]);
    while (call->n_held)
        vg_cl_unuse(call->held[--call->n_held]);
    free(call->held);
    vg_wire_out_end(&call->out);
    free(call->body);
    vg_serve_free_data(call->serve, call->data, call->head.data);
    if (call->room)
        vg_serve_area_end(call->serve);
    free(call);
}

/* An error in a call without an answer is reported with the next answer. */
static cl_int
serve_report_late(struct vg_serve_call *call, cl_int result)
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
    struct vg_serve_output *output = call->is_beside ? NULL : vg_serve_output_begin(call);
    if (output)
        vg_serve_send_output(serve, output);
    bool is_in = !call->refused && vg_serve_turn_enter(serve->turn, call->head.op);
    if (!is_in && !call->refused) {
        call->refused = CL_OUT_OF_RESOURCES;
        call->why = "more commands that wait for an event than its limit";
    }
    vg_serve_meter_entered(call);
    if (!call->is_beside)
        vg_serve_watch_enter(serve, call->head.op);
    cl_int result = is_in ? vg_serve_functions[call->head.op](call) : call->refused;
    if (!call->is_beside)
        vg_serve_watch_leave(serve);
    if (is_in && result == CL_SUCCESS && call->head.op == VG_WIRE_OP_Finish)
        vg_serve_lent_done(call);
    vg_serve_meter_back(call, result);
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
        vg_cl_say("a client sent an invalid message: %u", call->head.op);
        vg_serve_break(serve);
    } else {
        vg_serve_meter_result(call, result);
        result = serve_report_late(call, result);
        if (!(call->head.flags & VG_WIRE_LATER))
            vg_serve_answer(call, result);
    }
    const bool is_beside = call->is_beside;
    serve_free(call);
    /* In the meantime, claim what the serving thread is about to take. */
    if (!is_beside)
        vg_serve_settle_memory(serve);
    vg_serve_meter_have(serve);
    return NULL;
}

static void *
serve_run(void *data)
{
    struct vg_serve_call *call = data;
    struct vg_serve *serve = call->serve;
    size_t size = call->head.size;

    serve_do(call);
    vg_serve_leave_bytes(serve, size);
    pthread_mutex_lock(&serve->lock);
    serve->n_threads--;
    pthread_mutex_unlock(&serve->lock);
    return NULL;
}

/* Returns whether OP waits. */
static bool
serve_may_wait(unsigned op)
{
    return vg_wire_is_synchronising(op) || op == VG_WIRE_OP_EnqueueWriteBuffer ||
           op == VG_WIRE_OP_EnqueueWriteBufferRect || op == VG_WIRE_OP_EnqueueWriteImage;
}

/* A call that waits for an event which only the client can set must not block this thread. */
static void
serve_begin(struct vg_serve_call *call)
{
    struct vg_serve *serve = call->serve;
    pthread_t thread;

    if (vg_cl_user_events_n == 0 || !(call->head.flags & VG_WIRE_WAITS) ||
        !serve_may_wait(call->head.op)) {
        serve_do(call);
        return;
    }
    pthread_mutex_lock(&serve->lock);
    if (serve->n_threads >= SERVE_THREADS_MAX) {
        call->refused = CL_OUT_OF_RESOURCES;
        call->why = "more waiting calls than its limit";
    }
    pthread_mutex_unlock(&serve->lock);
    if (!call->refused && !vg_serve_take_bytes(serve, call->head.size)) {
        call->refused = CL_OUT_OF_HOST_MEMORY;
        call->why = SERVE_WHY_DATA;
    }
    if (call->refused) {
        serve_do(call);
        return;
    }
    pthread_mutex_lock(&serve->lock);
    serve->n_threads++;
    pthread_mutex_unlock(&serve->lock);
    call->is_beside = true;
    if (pthread_create(&thread, NULL, serve_run, call) == 0) {
        pthread_detach(thread);
        return;
    }
    vg_cl_say("cannot start a thread for a waiting call");
    call->in.is_bad = true;
    vg_serve_break(serve);
    pthread_mutex_lock(&serve->lock);
    serve->n_threads--;
    pthread_mutex_unlock(&serve->lock);
    vg_serve_leave_bytes(serve, call->head.size);
    serve_free(call);
}

/* Discards the data on the link if there is no space for it. */
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

/* Finds the data of a message: received, in the client's area, or space for the answer's data. */
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
        call->why = SERVE_WHY_DATA;
        return serve_skip_data(serve, size);
    }
    unsigned char *area = vg_wire_link_area(serve->link, call->head.at, size);
    if (!area || (call->head.flags & both) == both) {
        vg_cl_say("a client named an invalid memory object");
        serve->is_bad = true;
        return false;
    }
    vg_serve_area_begin(serve);
    if (call->head.flags & VG_WIRE_STAGED) {
        call->data = area;
    } else {
        call->room = area;
        call->room_size = size;
        call->head.data = 0;
    }
    return true;
}

/* Receives one complete message. Returns NULL if there are no more. */
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
        vg_cl_say("a client sent an invalid message: %u, %u bytes", head.op, head.size);
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

struct vg_serve *
vg_serve_begin(struct vg_wire_link *link, const struct vg_serve_limits *limits)
{
    struct vg_serve *serve = calloc(1, sizeof *serve);
    pthread_condattr_t attr;

    if (!serve)
        return NULL;
    serve->link = link;
    serve->limits = *limits;
    pthread_mutex_init(&serve->sending, NULL);
    pthread_mutex_init(&serve->listing, NULL);
    pthread_cond_init(&serve->more, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&serve->less, &attr);
    pthread_condattr_destroy(&attr);
    serve->said_end = &serve->said;
    pthread_mutex_init(&serve->lock, NULL);
    pthread_mutex_init(&serve->lent.lock, NULL);
    vg_cl_gate_begin(); /* before there are threads */
    /* The vendor's library is loaded after this point. */
    if (limits->turns >= 0 && !vg_serve_watch_begin(serve)) {
        vg_cl_say("cannot start the thread that watches a client's process");
        return NULL;
    }
    if (!serve_add_roots(serve)) {
        vg_cl_say("there is no OpenCL device");
        return NULL;
    }
    if (limits->turns >= 0)
        serve->turn = vg_serve_turn_begin(serve, limits);
    if (limits->turns >= 0 && !serve->turn) {
        vg_cl_say("cannot start the thread for a client's turns");
        return NULL;
    }
    vg_serve_meter_link(serve->limits.counts, link);
    if (link->session && !vg_serve_begin_sender(serve)) {
        vg_cl_say("cannot start the thread that notifies a client");
        return NULL;
    }
    return serve;
}

bool
vg_serve_run(struct vg_serve *serve)
{
    /* The first message is the hello. */
    struct vg_serve_call *call = serve_receive(serve);
    bool ok = call && call->head.op == VG_WIRE_OP_HELLO && !call->head.flags;

    while (call && ok && !vg_wire_link_is_shut(serve->link)) {
        vg_serve_pinned_look(serve);
        serve_begin(call);
        call = serve_receive(serve);
        /* A second hello would set up again what must not change. */
        ok = !call || call->head.op != VG_WIRE_OP_HELLO;
        if (!ok)
            vg_cl_say("a client sent an invalid message: a second hello");
    }
    if (call)
        serve_free(call);
    vg_wire_link_shut(serve->link);
    return ok && !serve->is_bad;
}
