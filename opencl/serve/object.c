/* SPDX-License-Identifier: Apache-2.0
 *
 * The proxy's side: the objects of a client, and their ids in its messages.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "opencl/icd/entries.h"
#include "opencl/serve/lent.h"
#include "opencl/serve/private.h"

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

/* Called under the lock. */
static void *
serve_look(const struct vg_serve *serve, uint64_t id, enum vg_cl_type type)
{
    return id != 0 && id < serve->n_slots && serve->slots[id].type == type ? serve->slots[id].handle
                                                                           : NULL;
}

bool
vg_serve_has(struct vg_serve *serve, uint64_t id, enum vg_cl_type type, const void *handle)
{
    pthread_mutex_lock(&serve->lock);
    bool has = serve_look(serve, id, type) == handle;
    pthread_mutex_unlock(&serve->lock);
    return has;
}

/* Allocates space for another object that CALL retains. */
static bool
serve_can_hold(struct vg_serve_call *call)
{
    if (call->n_held < call->held_room)
        return true;
    size_t room = call->held_room * 2 + 8;
    struct vg_cl_object **more = realloc(call->held, room * sizeof(struct vg_cl_object *));
    if (!more)
        return false;
    call->held = more;
    call->held_room = room;
    return true;
}

/* What a call in its own thread has found stays alive until the call ends, whatever is released in
 * the meantime. */
static void *
serve_find(struct vg_serve_call *call, uint64_t id, enum vg_cl_type type)
{
    struct vg_serve *serve = call->serve;

    if (call->is_beside && !serve_can_hold(call)) {
        call->in.is_bad = true;
        return NULL;
    }
    pthread_mutex_lock(&serve->lock);
    void *handle = serve_look(serve, id, type);
    if (handle && call->is_beside)
        call->held[call->n_held++] = vg_cl_use(handle);
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
    void *handle = serve_find(call, vg_wire_get(&call->in), type);

    if (handle && type == VG_CL_QUEUE)
        vg_serve_lent_before(call->serve, handle);
    return handle;
}

void *
vg_serve_objects(struct vg_serve_call *call, enum vg_cl_type type, uint64_t n)
{
    const uint64_t *ids = vg_wire_get_array(&call->in, n, sizeof *ids);
    void **handles = ids ? vg_serve_memory(call, n * sizeof *handles) : NULL;

    for (uint64_t i = 0; handles && i < n; i++)
        handles[i] = serve_find(call, ids[i], type);
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

    /* Pairs of names and values, and the 0 at the end. */
    if (pairs && (size % sizeof *pairs || n % 2 == 0 || pairs[n - 1] != 0))
        call->in.is_bad = true;
    return call->in.is_bad ? NULL : pairs;
}

void *
vg_serve_leaving(struct vg_serve_call *call, enum vg_cl_type type, uint64_t *id)
{
    *id = vg_wire_get(&call->in);
    return serve_find(call, *id, type);
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
        call->why = "more objects than its limit";
        call->in.is_bad = true;
    }
    pthread_mutex_unlock(&serve->lock);
    return call->in.is_bad ? 0 : id;
}

static void
serve_release(const struct serve_slot *slot)
{
    switch (slot->type) {
    case VG_CL_CONTEXT:
        vg_cl_dispatch.clReleaseContext(slot->handle);
        break;
    case VG_CL_QUEUE:
        vg_cl_dispatch.clReleaseCommandQueue(slot->handle);
        break;
    case VG_CL_MEM:
        vg_cl_dispatch.clReleaseMemObject(slot->handle);
        break;
    case VG_CL_SAMPLER:
        vg_cl_dispatch.clReleaseSampler(slot->handle);
        break;
    case VG_CL_PROGRAM:
        vg_cl_dispatch.clReleaseProgram(slot->handle);
        break;
    case VG_CL_KERNEL:
        vg_cl_dispatch.clReleaseKernel(slot->handle);
        break;
    case VG_CL_EVENT:
        vg_cl_dispatch.clReleaseEvent(slot->handle);
        break;
    case VG_CL_DEVICE:
        vg_cl_dispatch.clReleaseDevice(slot->handle);
        break;
    case VG_CL_NONE:
    case VG_CL_PLATFORM:
        break;
    }
}

void
vg_serve_made(struct vg_serve_call *call, uint64_t id, enum vg_cl_type type, void *handle)
{
    struct vg_serve *serve = call->serve;
    const struct serve_slot slot = {handle, type};

    if (!handle)
        return;
    pthread_mutex_lock(&serve->lock);
    bool is_free = id && serve->slots[id].type == VG_CL_NONE;
    if (is_free) {
        serve->slots[id] = slot;
        serve->n_objects++;
    }
    pthread_mutex_unlock(&serve->lock);
    if (is_free)
        return;
    /* There is none, or another call has taken it in the meantime. */
    serve_release(&slot);
    call->in.is_bad = true;
}

void *
vg_serve_root(struct vg_serve *serve, uint64_t id)
{
    pthread_mutex_lock(&serve->lock);
    void *handle = id >= 1 && id <= serve->n_roots ? serve->slots[id].handle : NULL;
    pthread_mutex_unlock(&serve->lock);
    return handle;
}

uint64_t
vg_serve_id_of(struct vg_serve *serve, const void *root)
{
    for (uint64_t id = 1; id <= serve->n_roots; id++)
        if (vg_serve_root(serve, id) == root)
            return id;
    return 0;
}
