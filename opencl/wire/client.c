/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "opencl/wire/client-private.h"
#include "opencl/wire/image.h"

/* ---- sending ---- */

/* What was gathered, and then the parts; with the lock for sending. */
static bool
client_send(struct vg_wire_client *client, const struct vg_wire_head *head, const void *body,
            const void *data)
{
    struct iovec parts[4];
    int n = 0;

    if (client->n_batch)
        parts[n++] = (struct iovec){client->batch, client->n_batch};
    client->n_batch = 0;
    if (head) {
        parts[n++] = (struct iovec){(void *)(uintptr_t)head, sizeof *head};
        parts[n++] = (struct iovec){(void *)(uintptr_t)body, head->size};
        if (!(head->flags & (VG_WIRE_STAGED | VG_WIRE_ROOM)))
            parts[n++] = (struct iovec){(void *)(uintptr_t)data, head->data};
    }
    if (n == 0 || vg_wire_link_send(&client->link, parts, n, vg_wire_client_take, client))
        return true;
    vg_wire_client_break(client);
    return false;
}

void
vg_wire_flush(struct vg_wire_client *client)
{
    pthread_mutex_lock(&client->sending);
    client_send(client, NULL, NULL, NULL);
    pthread_mutex_unlock(&client->sending);
}

void
vg_wire_call_begin(struct vg_wire_call *call, const void *lead, enum vg_wire_op op)
{
    call->client = vg_wire_object(lead)->client;
    call->op = (uint16_t)op;
    call->flags = 0;
    call->lead = vg_wire_object(lead);
    call->is_later = false;
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

/* The next message, of CALL; with both locks. What is written from an area is the proxy's until it
 * leaves it. */
static struct vg_wire_head
client_head(struct vg_wire_call *call, uint16_t flags)
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

cl_int
vg_wire_call_send(struct vg_wire_call *call)
{
    struct vg_wire_client *client = call->client;

    if (call->out.is_bad)
        return CL_OUT_OF_HOST_MEMORY;
    pthread_mutex_lock(&client->sending);
    pthread_mutex_lock(&client->lock);
    struct vg_wire_head head = client_head(call, call->flags);
    bool is_broken = client->is_broken;
    if (!is_broken) {
        call->next = client->waiting;
        client->waiting = call;
    }
    pthread_mutex_unlock(&client->lock);
    if (!is_broken)
        client_send(client, &head, call->out.bytes, call->data);
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

/* Puts a message behind those that were gathered; with the lock for sending. */
static void
client_gather(struct vg_wire_client *client, const struct vg_wire_head *head, const void *body,
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
vg_wire_call_tell(struct vg_wire_call *call)
{
    struct vg_wire_client *client = call->client;

    if (call->out.is_bad)
        return CL_OUT_OF_HOST_MEMORY;
    pthread_mutex_lock(&client->sending);
    pthread_mutex_lock(&client->lock);
    struct vg_wire_head head = client_head(call, VG_WIRE_LATER);
    bool ok = !client->is_broken;
    pthread_mutex_unlock(&client->lock);
    size_t size = sizeof head + call->out.size;
    size_t data_size = head.flags & VG_WIRE_STAGED ? 0 : call->data_size;
    /* Who has staged so much already has the proxy begin with it. */
    bool is_small =
        !client->is_unbatched && size < VG_WIRE_BATCH && data_size < VG_WIRE_BATCH - size;
    if (ok && is_small && !(head.flags & VG_WIRE_STAGED)) {
        if (client->n_batch + size + data_size > VG_WIRE_BATCH)
            ok = client_send(client, NULL, NULL, NULL);
        if (ok)
            client_gather(client, &head, call->out.bytes, call->data, data_size);
    } else if (ok) {
        ok = client_send(client, &head, call->out.bytes, call->data);
    }
    pthread_mutex_unlock(&client->sending);
    return ok ? CL_SUCCESS : VG_WIRE_BROKEN;
}

/* ---- the beginning and the end ---- */

static const char *
client_hello(struct vg_wire_client *client)
{
    struct vg_wire_object lead = {.client = client};
    struct vg_wire_call call;

    vg_wire_call_begin(&call, &lead, VG_WIRE_OP_HELLO);
    vg_wire_put(&call.out, VG_WIRE_MAGIC);
    vg_wire_put(&call.out, VG_WIRE_VERSION);
    cl_int result = vg_wire_call_ask(&call);
    const char *wrong = result == CL_SUCCESS         ? NULL
                        : result == CL_INVALID_VALUE ? "the proxy has another version"
                                                     : "the proxy does not answer";
    size_t size = 0;
    const uint64_t *n_devices = wrong ? NULL : vg_wire_get_list(&call.in, &size);
    if (!wrong && (!n_devices || call.in.is_bad))
        wrong = "the proxy has no platforms";
    client->memory_most = vg_wire_get(&call.in);
    size_t n = size / sizeof *n_devices, all = 0;
    for (size_t i = 0; !wrong && i < n; i++) {
        all += n_devices[i] < 4096 ? 1 + n_devices[i] : 4096;
        if (all >= 4096)
            wrong = "the proxy has too many devices";
    }
    client->roots = wrong ? NULL : calloc(all ? all : 1, sizeof(struct vg_wire_object *));
    for (size_t i = 0; client->roots && i < n; i++)
        for (uint64_t d = 0; d <= n_devices[i]; d++) {
            struct vg_wire_object *root =
                vg_wire_object_new(client, d ? VG_CL_DEVICE : VG_CL_PLATFORM, NULL);
            if (root)
                client->roots[client->n_roots++] = root;
        }
    vg_wire_call_end(&call);
    return wrong ? wrong : client->n_roots < all ? "there is no memory" : NULL;
}

struct vg_wire_client *
vg_wire_connect(const char *address, const char **why)
{
    struct vg_wire_client *client = calloc(1, sizeof *client);
    pthread_condattr_t attr;

    if (client)
        client->batch = malloc(VG_WIRE_BATCH);
    if (!client || !client->batch || !vg_wire_link_open(&client->link, address)) {
        *why = vg_wire_link_fault() ? vg_wire_link_fault()
               : errno == EACCES ? "it takes another token or another VM, or is of another version"
               : errno == EUSERS ? "it has as many clients as it may"
               : errno == ETIMEDOUT ? "it does not answer"
                                    : strerror(errno);
        if (client)
            free(client->batch);
        free(client);
        return NULL;
    }
    client->ready_end = &client->ready;
    client->is_unbatched = secure_getenv("VGPU_OPENCL_UNBATCHED") != NULL;
    pthread_mutex_init(&client->sending, NULL);
    pthread_mutex_init(&client->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&client->changed, &attr);
    pthread_cond_init(&client->helps, &attr);
    pthread_condattr_destroy(&attr);
    vg_wire_fork_list(client);
    *why = client_hello(client);
    vg_wire_link_return(&client->link);
    if (!*why)
        return client;
    vg_wire_disconnect(client);
    return NULL;
}

void
vg_wire_stay(struct vg_wire_client *client)
{
    pthread_mutex_lock(&client->lock);
    client->is_staying = true;
    pthread_mutex_unlock(&client->lock);
    vg_wire_link_stay(&client->link);
}

const char *
vg_wire_why(struct vg_wire_client *client)
{
    pthread_mutex_lock(&client->lock);
    bool is_broken = client->is_broken;
    pthread_mutex_unlock(&client->lock);
    const char *why = is_broken ? vg_wire_link_why(&client->link) : NULL;
    return !is_broken || why ? why : "it has ended, or does not answer";
}

cl_platform_id *
vg_wire_platforms(struct vg_wire_client *client, cl_uint *n)
{
    cl_platform_id *platforms = calloc(client->n_roots + 1, sizeof *platforms);

    *n = 0;
    for (cl_uint i = 0; platforms && i < client->n_roots; i++)
        if (client->roots[i]->type == VG_CL_PLATFORM)
            platforms[(*n)++] = (cl_platform_id)client->roots[i];
    return platforms;
}

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

void
vg_wire_disconnect(struct vg_wire_client *client)
{
    pthread_mutex_lock(&client->lock);
    client->is_closing = true;
    pthread_cond_signal(&client->helps);
    pthread_mutex_unlock(&client->lock);
    vg_wire_flush(client);
    if (client->has_helper)
        pthread_join(client->helper, NULL);
    vg_wire_fork_unlist(client);
    vg_wire_link_shut(&client->link);
    vg_wire_link_close(&client->link);
    for (cl_uint i = 0; i < client->n_roots; i++)
        free(client->roots[i]);
    while (client->events) {
        struct client_event *event = client->events;
        client->events = event->next;
        free(event);
    }
    while (client->ready) {
        struct client_event *event = client->ready;
        client->ready = event->next;
        free(event);
    }
    while (client->reads)
        vg_wire_forget_read(client, client->reads->token);
    free(client->roots);
    free(client->free_ids);
    free(client->batch);
    pthread_cond_destroy(&client->changed);
    pthread_cond_destroy(&client->helps);
    pthread_mutex_destroy(&client->sending);
    pthread_mutex_destroy(&client->lock);
    free(client);
}
