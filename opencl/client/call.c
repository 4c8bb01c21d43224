/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls from the program's side, from start to end.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "opencl/client/private.h"

void
vg_wire_call_begin(struct vg_wire_call *call, const void *lead, enum vg_wire_op op)
{
    call->lead = vg_wire_object(lead);
    if (call->lead->client->is_inherited)
        call->lead = vg_wire_fork_renew(call->lead);
    call->client = call->lead->client;
    call->op = (uint16_t)op;
    call->flags = 0;
    call->is_later = false;
    call->is_foreign = false;
    call->learns = NULL;
    call->data = NULL;
    call->data_size = 0;
    call->sink = NULL;
    call->sink_size = 0;
    call->area = NULL;
    call->has_area = false;
    call->is_done = false;
    call->is_broken = false;
    call->n_new = 0;
    call->made = NULL;
    call->answer = NULL;
    call->got = 0;
    call->token = 0;
    call->small[0] = 0;
    vg_wire_in_begin(&call->in, call->small, 0);
    vg_wire_out_begin(&call->out);
}

void
vg_wire_call_end(struct vg_wire_call *call)
{
    vg_wire_out_end(&call->out);
    if (call->answer != (unsigned char *)call->small)
        free(call->answer);
    call->answer = NULL;
    if (call->has_area)
        vg_wire_unstage(call->client, call->area);
    call->has_area = false;
}

/* Prepares the next message of CALL. Called under both locks. Data written from an area belongs to
 * the proxy until the proxy releases the area. */
static struct vg_wire_head
call_head(struct vg_wire_call *call, uint16_t flags)
{
    struct vg_wire_client *client = call->client;
    struct vg_wire_head head = {.size = (uint32_t)call->out.size,
                                .op = call->op,
                                .flags = flags,
                                .number = ++client->number,
                                .data = call->data_size};

    call->number = head.number;
    for (struct client_read *read = client->reads; call->token && read; read = read->next)
        if (read->token == call->token) {
            read->queue = call->lead->serial;
            read->number = head.number;
        }
    if (!call->area)
        return head;
    if (call->sink_size) {
        head.flags |= VG_WIRE_ROOM;
        head.data = call->sink_size;
        head.at = vg_wire_link_where(&client->link, call->area);
    } else {
        head.flags |= VG_WIRE_STAGED;
        head.at = vg_wire_link_lend(&client->link, call->area);
        call->has_area = false;
    }
    return head;
}

/* Returns the error of CALL before it is sent. A broken link has its own error. */
static cl_int
call_refuse(const struct vg_wire_call *call)
{
    if (call->out.is_bad)
        return CL_OUT_OF_HOST_MEMORY;
    return call->is_foreign && !call->client->is_inherited ? CL_INVALID_CONTEXT : CL_SUCCESS;
}

cl_int
vg_wire_call_send(struct vg_wire_call *call)
{
    struct vg_wire_client *client = call->client;

    cl_int wrong = call_refuse(call);
    if (wrong != CL_SUCCESS)
        return wrong;
    pthread_mutex_lock(&client->sending);
    pthread_mutex_lock(&client->lock);
    struct vg_wire_head head = call_head(call, call->flags);
    bool is_broken = client->is_broken;
    if (!is_broken) {
        call->next = client->waiting;
        client->waiting = call;
    }
    pthread_mutex_unlock(&client->lock);
    if (!is_broken)
        vg_wire_client_send(client, &head, call->out.bytes, call->data);
    pthread_mutex_unlock(&client->sending);
    if (is_broken)
        vg_wire_fork_say(client);
    return is_broken ? VG_WIRE_BROKEN : CL_SUCCESS;
}

cl_int
vg_wire_call_wait(struct vg_wire_call *call)
{
    vg_wire_client_wait(call);
    cl_int result = (cl_int)(int64_t)vg_wire_get(&call->in);
    if (result == CL_SUCCESS && call->learns)
        atomic_store_explicit(call->learns, call->learned, memory_order_relaxed);
    return call->is_broken || call->in.is_bad ? VG_WIRE_BROKEN : result;
}

cl_int
vg_wire_call_ask(struct vg_wire_call *call)
{
    cl_int result = vg_wire_call_send(call);

    return result == CL_SUCCESS ? vg_wire_call_wait(call) : result;
}

/* Appends a message to the gathered ones. Called under the lock for sending. */
static void
call_gather(struct vg_wire_client *client, const struct vg_wire_head *head, const void *body,
            const void *data, size_t data_size)
{
    unsigned char *at = client->batch + client->n_batch;

    memcpy(at, head, sizeof *head);
    memcpy(at + sizeof *head, body, head->size);
    if (data_size)
        memcpy(at + sizeof *head + head->size, data, data_size);
    if (client->n_batch == 0) {
        pthread_mutex_lock(&client->lock);
        client->is_gathering = true;
        vg_wire_client_need_helper(client);
        if (!client->is_pausing)
            pthread_cond_signal(&client->helps);
        pthread_mutex_unlock(&client->lock);
    }
    client->n_batch += sizeof *head + head->size + data_size;
}

cl_int
vg_wire_call_post(struct vg_wire_call *call)
{
    struct vg_wire_client *client = call->client;

    cl_int wrong = call_refuse(call);
    if (wrong != CL_SUCCESS)
        return wrong;
    pthread_mutex_lock(&client->sending);
    pthread_mutex_lock(&client->lock);
    struct vg_wire_head head = call_head(call, VG_WIRE_LATER);
    bool ok = !client->is_broken;
    pthread_mutex_unlock(&client->lock);
    size_t size = sizeof head + call->out.size;
    size_t data_size = head.flags & VG_WIRE_STAGED ? 0 : call->data_size;
    /* If so much has been staged already, let the proxy start with it. */
    bool is_small =
        !client->is_unbatched && size < VG_WIRE_BATCH && data_size < VG_WIRE_BATCH - size;
    if (ok && is_small && !(head.flags & VG_WIRE_STAGED)) {
        if (client->n_batch + size + data_size > VG_WIRE_BATCH)
            ok = vg_wire_client_send(client, NULL, NULL, NULL);
        if (ok)
            call_gather(client, &head, call->out.bytes, call->data, data_size);
    } else if (ok) {
        ok = vg_wire_client_send(client, &head, call->out.bytes, call->data);
    }
    pthread_mutex_unlock(&client->sending);
    return ok ? CL_SUCCESS : VG_WIRE_BROKEN;
}

/* ---- how they end ---- */

void *
vg_wire_call_made(struct vg_wire_call *call, struct vg_wire_object *object, cl_int *error)
{
    cl_int result = object ? vg_wire_call_ask(call) : CL_OUT_OF_HOST_MEMORY;
    /* A program that could not be linked exists nevertheless. */
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
    cl_int result = vg_wire_call_post(call);

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
                    : call->is_later ? vg_wire_call_post(call)
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
    /* Vendors also write it if there is not enough space. */
    if (result != VG_WIRE_BROKEN && size_ret && n != SIZE_MAX)
        *size_ret = n;
    vg_wire_call_end(call);
    return result;
}
