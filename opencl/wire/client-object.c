/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects of the program's side, and how calls that make or ask for them end.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "opencl/wire/client-private.h"

void
vg_wire_lock(struct vg_wire_client *client)
{
    pthread_mutex_lock(&client->lock);
}

void
vg_wire_unlock(struct vg_wire_client *client)
{
    pthread_mutex_unlock(&client->lock);
}

void
vg_wire_put_object(struct vg_wire_out *out, const void *handle)
{
    vg_wire_put(out, handle ? vg_wire_object(handle)->id : 0);
}

void
vg_wire_put_objects(struct vg_wire_out *out, uint64_t n, const void *handles)
{
    const struct vg_wire_object *const *list = handles;

    vg_wire_put(out, handles ? n * sizeof(uint64_t) : VG_WIRE_NONE);
    for (uint64_t i = 0; handles && i < n; i++)
        vg_wire_put_object(out, list[i]);
}

void
vg_wire_put_strings(struct vg_wire_out *out, uint64_t n, const char *const *strings)
{
    vg_wire_put(out, strings ? n : VG_WIRE_NONE);
    for (uint64_t i = 0; strings && i < n; i++)
        vg_wire_put_string(out, strings[i]);
}

static _Atomic uint64_t client_serial;

struct vg_wire_object *
vg_wire_object_new(struct vg_wire_client *client, enum vg_cl_type type, const void *context)
{
    struct vg_wire_object *object = calloc(1, sizeof *object);

    if (!object)
        return NULL;
    pthread_mutex_lock(&client->lock);
    uint64_t id = client->n_free ? client->free_ids[--client->n_free] : client->last_id + 1;
    if (id > client->last_id && id < VG_WIRE_IDS_MAX)
        client->last_id = id;
    pthread_mutex_unlock(&client->lock);
    if (id >= VG_WIRE_IDS_MAX) {
        free(object);
        return NULL;
    }
    object->dispatch = &vg_wire_dispatch;
    object->client = client;
    object->id = id;
    object->serial = atomic_fetch_add(&client_serial, 1) + 1;
    object->type = type;
    object->context = vg_wire_object(context);
    return object;
}

struct vg_wire_object *
vg_wire_new(struct vg_wire_call *call, enum vg_cl_type type, const void *context)
{
    struct vg_wire_object *object = vg_wire_object_new(call->client, type, context);

    vg_wire_put(&call->out, object ? object->id : 0);
    call->n_new++;
    call->made = object;
    return object;
}

struct vg_wire_object *
vg_wire_new_event(struct vg_wire_call *call, const cl_event *event)
{
    if (event)
        return vg_wire_new(call, VG_CL_EVENT, call->lead->context);
    vg_wire_put(&call->out, 0);
    return NULL;
}

void
vg_wire_free(struct vg_wire_object *object)
{
    if (!object)
        return;
    struct vg_wire_client *client = object->client;
    pthread_mutex_lock(&client->lock);
    if (client->n_free == client->free_room) {
        size_t room = client->free_room * 2 + 64;
        uint64_t *more = realloc(client->free_ids, room * sizeof *more);
        if (more) {
            client->free_ids = more;
            client->free_room = room;
        }
    }
    if (client->n_free < client->free_room && !object->is_left)
        client->free_ids[client->n_free++] = object->id;
    pthread_mutex_unlock(&client->lock);
    free(object->kernel);
    free(object->sizes);
    free(object);
}

void *
vg_wire_call_made(struct vg_wire_call *call, struct vg_wire_object *object, cl_int *error)
{
    cl_int result = object ? vg_wire_call_ask(call) : CL_OUT_OF_HOST_MEMORY;
    /* A program that could not be linked is there all the same. */
    bool is_there = object && result != VG_WIRE_BROKEN && vg_wire_get(&call->in);

    if (result == CL_SUCCESS && !is_there)
        result = VG_WIRE_BROKEN;
    vg_wire_call_end(call);
    vg_cl_set_error(error, result);
    if (is_there)
        return object;
    vg_wire_free(object);
    return NULL;
}

cl_int
vg_wire_call_release(struct vg_wire_call *call, struct vg_wire_object *object)
{
    cl_int result = vg_wire_call_tell(call);

    vg_wire_call_end(call);
    vg_wire_free(object);
    return result;
}

void
vg_wire_note_event(struct vg_wire_object *event, const struct vg_wire_call *call)
{
    if (!event)
        return;
    event->queue = call->lead->serial;
    event->number = call->number;
    event->order = call->lead->order;
}

cl_int
vg_wire_call_enqueued(struct vg_wire_call *call, struct vg_wire_object *made, cl_event *event)
{
    cl_int result = event && !made   ? CL_OUT_OF_HOST_MEMORY
                    : call->is_later ? vg_wire_call_tell(call)
                                     : vg_wire_call_ask(call);

    vg_wire_call_end(call);
    vg_wire_note_event(made, call);
    if (result == CL_SUCCESS && event)
        *event = (cl_event)made;
    else
        vg_wire_free(made);
    return result;
}

cl_int
vg_wire_call_info(struct vg_wire_call *call, size_t size, void *value, size_t *size_ret)
{
    vg_wire_put(&call->out, value ? size : VG_WIRE_NONE);
    cl_int result = vg_wire_call_ask(call);
    size_t n = vg_wire_get(&call->in), has;
    const void *bytes = vg_wire_get_list(&call->in, &has);

    /* As much as there is, or as fits. */
    if (result == CL_SUCCESS &&
        (call->in.is_bad || (value && (!bytes || has != (n < size ? n : size)))))
        result = VG_WIRE_BROKEN;
    if (result == CL_SUCCESS && value && has)
        memcpy(value, bytes, has);
    /* Vendors write it also where the room is too little. */
    if (result != VG_WIRE_BROKEN && size_ret && n != SIZE_MAX)
        *size_ret = n;
    vg_wire_call_end(call);
    return result;
}

/* ---- areas of the memory in common ---- */

unsigned char *
vg_wire_stage(struct vg_wire_client *client, size_t size)
{
    if (size < VG_WIRE_STAGED_MIN)
        return NULL;
    pthread_mutex_lock(&client->lock);
    unsigned char *area = vg_wire_link_stage(&client->link, size);
    pthread_mutex_unlock(&client->lock);
    return area;
}

void
vg_wire_unstage(struct vg_wire_client *client, const unsigned char *area)
{
    pthread_mutex_lock(&client->lock);
    vg_wire_link_unstage(&client->link, area);
    pthread_mutex_unlock(&client->lock);
}
