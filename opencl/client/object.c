/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects of the program's side.
 */
#include "config.h"

#include <stdlib.h>

#include "opencl/client/private.h"

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
vg_wire_put_object(struct vg_wire_call *call, const void *handle)
{
    const struct vg_wire_object *object = vg_wire_object(handle);

    if (object && object->renewed)
        object = object->renewed;
    if (object && object->client != call->client)
        call->is_foreign = true;
    vg_wire_put(&call->out, object ? object->id : 0);
}

void
vg_wire_put_objects(struct vg_wire_call *call, uint64_t n, const void *handles)
{
    const struct vg_wire_object *const *list = handles;

    vg_wire_put(&call->out, handles ? n * sizeof(uint64_t) : VG_WIRE_NONE);
    for (uint64_t i = 0; handles && i < n; i++)
        vg_wire_put_object(call, list[i]);
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
    object->dispatch = client->dispatch;
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

/* ---- platforms and devices ---- */

size_t
vg_wire_memory_most(const void *context)
{
    return vg_wire_object(context)->client->memory_most;
}

struct vg_wire_object *
vg_wire_root(struct vg_wire_client *client, uint64_t id)
{
    return id >= 1 && id <= client->n_roots ? client->roots[id - 1] : NULL;
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
