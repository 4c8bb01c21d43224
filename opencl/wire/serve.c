/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/wire/serve.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "opencl/icd/entries.h"
#include "opencl/icd/say.h"
#include "opencl/track/callback.h"
#include "opencl/track/memory.h"

struct serve_slot {
    void *handle;
    enum vg_cl_type type;
};

/* A command that reads for the client, which does not wait for it. */
struct serve_read {
    struct serve_read *next;
    uint64_t token;
    cl_event event;
    struct vg_wire_rows rows;
    void *bytes;
};

struct vg_serve {
    struct vg_wire_link *link;
    struct vg_serve_limits limits;
    pthread_mutex_t sending; /* and the list of reads */
    struct serve_read *reads;
    pthread_mutex_t lock; /* of the table, and of: */
    pthread_cond_t idle;
    unsigned n_threads; /* calls that wait in threads of their own */
    cl_int late;        /* the first error that nobody was told of yet */
    bool is_bad;
    struct serve_slot *slots;
    uint64_t n_slots, n_roots;
};

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
    pthread_mutex_unlock(&serve->lock);
    return call->in.is_bad ? 0 : id;
}

static void
serve_put(struct vg_serve *serve, uint64_t id, enum vg_cl_type type, void *handle)
{
    pthread_mutex_lock(&serve->lock);
    serve->slots[id] = (struct serve_slot){handle, type};
    pthread_mutex_unlock(&serve->lock);
}

void
vg_serve_made(struct vg_serve_call *call, uint64_t id, enum vg_cl_type type, void *handle)
{
    if (id && handle)
        serve_put(call->serve, id, type, handle);
}

void
vg_serve_made_event(struct vg_serve_call *call, uint64_t id, cl_command_queue queue, cl_event event,
                    cl_int result)
{
    cl_context context = NULL;

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
    if (id > serve->n_roots && id < serve->n_slots)
        serve->slots[id] = (struct serve_slot){NULL, VG_CL_NONE};
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

/* ---- limits ---- */

bool
vg_serve_may_have(const struct vg_serve *serve, uint64_t bytes)
{
    /* This process has one client. */
    uint64_t has = vg_cl_mem_bytes();

    return has <= serve->limits.memory && bytes <= serve->limits.memory - has;
}

void
vg_serve_limit_info(const struct vg_serve *serve, cl_device_info param,
                    const struct vg_serve_value *value)
{
    cl_ulong bytes;

    if ((param != CL_DEVICE_GLOBAL_MEM_SIZE && param != CL_DEVICE_MAX_MEM_ALLOC_SIZE) ||
        !value->bytes || value->has != sizeof bytes || value->size < sizeof bytes)
        return;
    memcpy(&bytes, value->bytes, sizeof bytes);
    bytes = bytes < serve->limits.memory ? bytes : serve->limits.memory;
    memcpy(value->bytes, &bytes, sizeof bytes);
}

/* ---- sending ---- */

static void
serve_break(struct vg_serve *serve)
{
    vg_wire_link_shut(serve->link);
}

/* With the lock for sending. */
static void
serve_send(struct vg_serve *serve, const struct vg_wire_head *head, const void *body,
           const void *data)
{
    struct iovec parts[3] = {
        {(void *)(uintptr_t)head, sizeof *head},
        {(void *)(uintptr_t)body, head->size},
        {(void *)(uintptr_t)data, head->data},
    };

    if (!vg_wire_link_send(serve->link, parts, 3, NULL, NULL))
        serve_break(serve);
}

static void
serve_send_read(struct vg_serve *serve, const struct serve_read *read, bool is_well)
{
    size_t size = is_well ? vg_wire_rows_size(&read->rows) : 0;
    void *all = size == 0 || vg_wire_rows_are_one(&read->rows) ? NULL : malloc(size);

    if (all)
        vg_wire_rows_gather(&read->rows, all);
    else if (!vg_wire_rows_are_one(&read->rows))
        size = 0;
    struct vg_wire_head head = {0, VG_WIRE_READ, 0, read->token, size};
    serve_send(serve, &head, NULL, all ? all : read->rows.at);
    free(all);
}

/* What has been read by now goes before whatever tells the client that it has; with the lock. */
static void
serve_send_reads(struct vg_serve *serve)
{
    struct serve_read **link = &serve->reads;

    while (*link) {
        struct serve_read *read = *link;
        cl_int status = CL_COMPLETE;
        vg_cl_dispatch.clGetEventInfo(read->event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status,
                                      &status, NULL);
        if (status > CL_COMPLETE) {
            link = &read->next;
            continue;
        }
        serve_send_read(serve, read, status == CL_COMPLETE);
        *link = read->next;
        vg_cl_dispatch.clReleaseEvent(read->event);
        free(read->bytes);
        free(read);
    }
}

static void CL_CALLBACK
serve_on_read(cl_event event, cl_int status, void *data)
{
    struct vg_serve *serve = data;

    (void)event;
    (void)status;
    pthread_mutex_lock(&serve->sending);
    serve_send_reads(serve);
    pthread_mutex_unlock(&serve->sending);
}

bool
vg_serve_read_later(struct vg_serve *serve, uint64_t token, cl_event event,
                    const struct vg_wire_rows *rows, void *bytes)
{
    struct serve_read *read = malloc(sizeof *read);

    if (!read)
        return false;
    pthread_mutex_lock(&serve->sending);
    *read = (struct serve_read){serve->reads, token, event, *rows, bytes};
    serve->reads = read;
    vg_cl_dispatch.clRetainEvent(event);
    pthread_mutex_unlock(&serve->sending);
    /* Also without it, the data come with the next answer. */
    vg_cl_dispatch.clSetEventCallback(event, CL_COMPLETE, serve_on_read, serve);
    return true;
}

void
vg_serve_say_event(struct vg_serve *serve, uint64_t token, cl_int status)
{
    uint64_t body = (uint64_t)(int64_t)status;
    struct vg_wire_head head = {sizeof body, VG_WIRE_EVENT, 0, token, 0};

    pthread_mutex_lock(&serve->sending);
    serve_send_reads(serve);
    serve_send(serve, &head, &body, NULL);
    pthread_mutex_unlock(&serve->sending);
}

static void
serve_answer(struct vg_serve_call *call, cl_int result)
{
    struct vg_serve *serve = call->serve;
    uint64_t first = (uint64_t)(int64_t)result;
    struct vg_wire_head head = {(uint32_t)(sizeof first + call->out.size), VG_WIRE_ANSWER, 0,
                                call->head.number, call->answer_size};
    struct iovec parts[4] = {
        {&head, sizeof head},
        {&first, sizeof first},
        {call->out.bytes, call->out.size},
        {(void *)(uintptr_t)call->answer, call->answer_size},
    };

    pthread_mutex_lock(&serve->sending);
    serve_send_reads(serve);
    if (call->out.is_bad || !vg_wire_link_send(serve->link, parts, 4, NULL, NULL))
        serve_break(serve);
    pthread_mutex_unlock(&serve->sending);
}

/* ---- calls ---- */

static void
serve_free(struct vg_serve_call *call)
{
    while (call->n_owned)
        free(call->owned[--call->n_owned]);
    vg_wire_out_end(&call->out);
    free(call->body);
    free(call->data);
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

    cl_int result = vg_serve_functions[call->head.op](call);
    if (call->in.is_bad) {
        pthread_mutex_lock(&serve->lock);
        serve->is_bad = true;
        pthread_mutex_unlock(&serve->lock);
        vg_cl_say("a client sent what is no message: %u", call->head.op);
        serve_break(serve);
    } else {
        result = serve_tell_late(call, result);
        if (!(call->head.flags & VG_WIRE_LATER))
            serve_answer(call, result);
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
    serve->n_threads++;
    pthread_mutex_unlock(&serve->lock);
    if (pthread_create(&thread, NULL, serve_run, call) == 0) {
        pthread_detach(thread);
        return;
    }
    vg_cl_say("there is no thread for a call that waits");
    call->in.is_bad = true;
    serve_break(serve);
    pthread_mutex_lock(&serve->lock);
    serve->n_threads--;
    pthread_mutex_unlock(&serve->lock);
    serve_free(call);
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
    call->data = ok && head.data ? malloc(head.data) : NULL;
    ok = ok && (call->body || !head.size) && (call->data || !head.data) &&
         vg_wire_link_receive(serve->link, call->body, head.size) &&
         vg_wire_link_receive(serve->link, call->data, head.data);
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
    struct vg_serve serve = {.link = link, .limits = *limits};
    struct vg_serve_call *call;

    pthread_mutex_init(&serve.sending, NULL);
    pthread_mutex_init(&serve.lock, NULL);
    pthread_cond_init(&serve.idle, NULL);
    if (!serve_add_roots(&serve)) {
        vg_cl_say("there is no device of OpenCL");
        return false;
    }
    /* The first message is the hello. */
    call = serve_receive(&serve);
    bool ok = call && call->head.op == VG_WIRE_OP_HELLO && !call->head.flags;
    while (call && ok) {
        serve_begin(call);
        call = serve_receive(&serve);
    }
    vg_wire_link_shut(link);
    return ok && !serve.is_bad;
}
