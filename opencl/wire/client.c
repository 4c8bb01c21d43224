/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "opencl/icd/say.h"
#include "opencl/wire/client-private.h"
#include "opencl/wire/image.h"

/* ---- receiving: whoever waits does it, for all ---- */

static void
client_break(struct vg_wire_client *client)
{
    pthread_mutex_lock(&client->lock);
    if (!client->is_broken && !client->is_closing)
        vg_cl_say("the proxy is gone: OpenCL does not work any more in this program");
    client->is_broken = true;
    for (struct vg_wire_call *call = client->waiting; call; call = call->next) {
        call->is_broken = true;
        call->is_done = true;
    }
    client->waiting = NULL;
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->lock);
    vg_wire_link_shut(&client->link);
}

static struct vg_wire_call *
client_take_waiting(struct vg_wire_client *client, uint64_t number)
{
    struct vg_wire_call *found = NULL;

    pthread_mutex_lock(&client->lock);
    for (struct vg_wire_call **link = &client->waiting; *link && !found;
         link = found ? link : &(*link)->next)
        if ((*link)->number == number) {
            found = *link;
            *link = found->next;
            break;
        }
    pthread_mutex_unlock(&client->lock);
    return found;
}

static bool
client_receive_answer(struct vg_wire_client *client, const struct vg_wire_head *head)
{
    struct vg_wire_call *call = client_take_waiting(client, head->number);

    if (!call)
        return false;
    call->answer = head->size > sizeof call->small ? malloc(head->size) : (void *)call->small;
    bool ok = call->answer && (head->data == 0 || head->data == call->sink_size) &&
              vg_wire_link_receive(&client->link, call->answer, head->size) &&
              vg_wire_link_receive(&client->link, call->sink, head->data);
    vg_wire_in_begin(&call->in, call->answer, call->answer ? head->size : 0);
    call->got = head->data;
    pthread_mutex_lock(&client->lock);
    call->is_broken = !ok;
    call->is_done = true;
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->lock);
    return ok;
}

static struct client_read *
client_take_read(struct vg_wire_client *client, uint64_t token)
{
    struct client_read *found = NULL;

    pthread_mutex_lock(&client->lock);
    for (struct client_read **link = &client->reads; *link; link = &(*link)->next)
        if ((*link)->token == token) {
            found = *link;
            *link = found->next;
            break;
        }
    pthread_mutex_unlock(&client->lock);
    return found;
}

/* Without data: the command has failed. */
static bool
client_receive_read(struct vg_wire_client *client, const struct vg_wire_head *head)
{
    struct client_read *read = client_take_read(client, head->number);
    bool ok = read && head->size == 0 &&
              (head->data == 0 || head->data == vg_wire_rows_size(&read->rows));

    if (ok && head->data && vg_wire_rows_are_one(&read->rows)) {
        ok = vg_wire_link_receive(&client->link, read->rows.at, head->data);
    } else if (ok && head->data) {
        void *all = malloc(head->data);
        ok = all && vg_wire_link_receive(&client->link, all, head->data);
        if (ok)
            vg_wire_rows_scatter(&read->rows, all);
        free(all);
    }
    free(read);
    return ok;
}

static bool
client_receive_event(struct vg_wire_client *client, const struct vg_wire_head *head)
{
    struct client_event *found = NULL;
    uint64_t status;

    if (head->size != sizeof status || head->data ||
        !vg_wire_link_receive(&client->link, &status, sizeof status))
        return false;
    pthread_mutex_lock(&client->lock);
    for (struct client_event **link = &client->events; *link; link = &(*link)->next)
        if ((*link)->token == head->number) {
            found = *link;
            *link = found->next;
            found->next = NULL;
            found->status = (cl_int)(int64_t)status;
            *client->ready_end = found;
            client->ready_end = &found->next;
            break;
        }
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->lock);
    return found;
}

static bool
client_receive_long(uint64_t seconds)
{
    vg_cl_say("the proxy ends this program's OpenCL: a command took longer than %" PRIu64
              " s while others waited",
              seconds);
    return false;
}

/* One message; the caller is the one that receives. */
static void
client_receive(struct vg_wire_client *client)
{
    struct vg_wire_head head;

    bool ok =
        vg_wire_link_receive(&client->link, &head, sizeof head) && head.size <= VG_WIRE_BODY_MAX;
    if (ok && head.op == VG_WIRE_ANSWER)
        ok = client_receive_answer(client, &head);
    else if (ok && head.op == VG_WIRE_READ)
        ok = client_receive_read(client, &head);
    else if (ok && head.op == VG_WIRE_LONG)
        ok = client_receive_long(head.number);
    else if (ok)
        ok = head.op == VG_WIRE_EVENT && client_receive_event(client, &head);
    if (!ok)
        client_break(client);
}

/* Receives one message, unless another thread receives; under the lock. */
static void
client_receive_one(struct vg_wire_client *client)
{
    client->is_receiving = true;
    pthread_mutex_unlock(&client->lock);
    client_receive(client);
    pthread_mutex_lock(&client->lock);
    client->is_receiving = false;
    pthread_cond_broadcast(&client->changed);
}

static void
client_wait(struct vg_wire_call *call)
{
    struct vg_wire_client *client = call->client;

    pthread_mutex_lock(&client->lock);
    while (!call->is_done) {
        if (client->is_receiving)
            pthread_cond_wait(&client->changed, &client->lock);
        else
            client_receive_one(client);
    }
    pthread_mutex_unlock(&client->lock);
}

/* ---- the thread that calls the program's functions, and sends what was gathered ---- */

static void
client_run_ready(struct vg_wire_client *client)
{
    struct client_event *event = client->ready;

    client->ready = event->next;
    if (!client->ready)
        client->ready_end = &client->ready;
    pthread_mutex_unlock(&client->lock);
    event->call(event->event, event->status, event->user_data);
    free(event);
    pthread_mutex_lock(&client->lock);
}

static void
client_pause(struct vg_wire_client *client, int64_t us)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += us * 1000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&client->changed, &client->lock, &until);
}

/* Nobody else receives what the proxy sends by itself; under the lock. */
static void
client_listen(struct vg_wire_client *client, int timeout_ms)
{
    pthread_mutex_unlock(&client->lock);
    bool is_there = vg_wire_link_wait(&client->link, timeout_ms);
    pthread_mutex_lock(&client->lock);
    if (is_there && !client->is_receiving && !client->waiting && !client->is_broken)
        client_receive_one(client);
    else if (is_there)
        client_pause(client, 1000);
}

static void *
client_help(void *data)
{
    struct vg_wire_client *client = data;

    pthread_mutex_lock(&client->lock);
    while (!client->is_closing) {
        if (client->ready) {
            client_run_ready(client);
        } else if (client->is_gathering) {
            client->is_gathering = false;
            client_pause(client, VG_WIRE_BATCH_US);
            pthread_mutex_unlock(&client->lock);
            vg_wire_flush(client);
            pthread_mutex_lock(&client->lock);
        } else if ((client->events || client->reads) && !client->is_broken) {
            client_listen(client, 1);
        } else {
            pthread_cond_wait(&client->changed, &client->lock);
        }
    }
    pthread_mutex_unlock(&client->lock);
    return NULL;
}

/* Under the lock. */
static void
client_need_helper(struct vg_wire_client *client)
{
    sigset_t all, before;

    if (client->has_helper)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    client->has_helper = pthread_create(&client->helper, NULL, client_help, client) == 0;
    if (client->has_helper)
        pthread_setname_np(client->helper, "vgpu-wire");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

uint64_t
vg_wire_expect_read(struct vg_wire_client *client, const struct vg_wire_rows *rows)
{
    struct client_read *read = malloc(sizeof *read);

    if (!read)
        return 0;
    pthread_mutex_lock(&client->lock);
    *read = (struct client_read){client->reads, ++client->token, *rows};
    client->reads = read;
    client_need_helper(client);
    uint64_t token = read->token;
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->lock);
    return token;
}

void
vg_wire_forget_read(struct vg_wire_client *client, uint64_t token)
{
    free(client_take_read(client, token));
}

uint64_t
vg_wire_expect_event(struct vg_wire_client *client, vg_wire_notify call, cl_event event,
                     void *user_data)
{
    struct client_event *expected = malloc(sizeof *expected);

    if (!expected)
        return 0;
    pthread_mutex_lock(&client->lock);
    *expected =
        (struct client_event){client->events, ++client->token, call, event, CL_SUCCESS, user_data};
    client->events = expected;
    client_need_helper(client);
    uint64_t token = expected->token;
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->lock);
    return token;
}

void
vg_wire_forget_event(struct vg_wire_client *client, uint64_t token)
{
    pthread_mutex_lock(&client->lock);
    for (struct client_event **link = &client->events; *link; link = &(*link)->next)
        if ((*link)->token == token) {
            struct client_event *event = *link;
            *link = event->next;
            free(event);
            break;
        }
    pthread_mutex_unlock(&client->lock);
}

/* ---- sending ---- */

/* The proxy sends while this side does: somebody has to take it. */
static void
client_take(void *data)
{
    struct vg_wire_client *client = data;

    pthread_mutex_lock(&client->lock);
    if (client->is_receiving)
        client_pause(client, 1000);
    else if (!client->is_broken)
        client_receive_one(client);
    pthread_mutex_unlock(&client->lock);
}

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
        parts[n++] = (struct iovec){(void *)(uintptr_t)data, head->data};
    }
    if (n == 0 || vg_wire_link_send(&client->link, parts, n, client_take, client))
        return true;
    client_break(client);
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
    call->is_done = false;
    call->is_broken = false;
    call->answer = NULL;
    call->got = 0;
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
}

cl_int
vg_wire_call_ask(struct vg_wire_call *call)
{
    struct vg_wire_client *client = call->client;

    if (call->out.is_bad)
        return CL_OUT_OF_HOST_MEMORY;
    pthread_mutex_lock(&client->sending);
    call->number = ++client->number;
    struct vg_wire_head head = {(uint32_t)call->out.size, call->op, call->flags, call->number,
                                call->data_size};
    pthread_mutex_lock(&client->lock);
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
        return VG_WIRE_BROKEN;
    client_wait(call);
    cl_int result = (cl_int)(int64_t)vg_wire_get(&call->in);
    if (result == CL_SUCCESS && call->learns)
        atomic_store_explicit(call->learns, call->learned, memory_order_relaxed);
    return call->is_broken || call->in.is_bad ? VG_WIRE_BROKEN : result;
}

/* Puts a message behind those that were gathered; with the lock for sending. */
static void
client_gather(struct vg_wire_client *client, const struct vg_wire_head *head, const void *body,
              const void *data)
{
    unsigned char *at = client->batch + client->n_batch;

    memcpy(at, head, sizeof *head);
    memcpy(at + sizeof *head, body, head->size);
    if (head->data)
        memcpy(at + sizeof *head + head->size, data, head->data);
    if (client->n_batch == 0) {
        pthread_mutex_lock(&client->lock);
        client->is_gathering = true;
        client_need_helper(client);
        pthread_cond_broadcast(&client->changed);
        pthread_mutex_unlock(&client->lock);
    }
    client->n_batch += sizeof *head + head->size + head->data;
}

cl_int
vg_wire_call_tell(struct vg_wire_call *call)
{
    struct vg_wire_client *client = call->client;

    if (call->out.is_bad)
        return CL_OUT_OF_HOST_MEMORY;
    pthread_mutex_lock(&client->sending);
    struct vg_wire_head head = {(uint32_t)call->out.size, call->op, VG_WIRE_LATER, ++client->number,
                                call->data_size};
    size_t size = sizeof head + call->out.size;
    bool ok = !client->is_broken;
    if (ok && size < VG_WIRE_BATCH && call->data_size < VG_WIRE_BATCH - size) {
        if (client->n_batch + size + call->data_size > VG_WIRE_BATCH)
            ok = client_send(client, NULL, NULL, NULL);
        if (ok)
            client_gather(client, &head, call->out.bytes, call->data);
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
        all += n_devices[i] < 1024 ? 1 + n_devices[i] : 0;
        if (all > 4096)
            wrong = "the proxy has too many devices";
    }
    client->roots = wrong ? NULL : calloc(all ? all : 1, sizeof(struct vg_wire_object *));
    for (size_t i = 0; client->roots && i < n; i++)
        for (uint64_t d = 0; d <= n_devices[i] && client->n_roots < all; d++) {
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
        *why = strerror(errno);
        if (client)
            free(client->batch);
        free(client);
        return NULL;
    }
    client->ready_end = &client->ready;
    pthread_mutex_init(&client->sending, NULL);
    pthread_mutex_init(&client->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&client->changed, &attr);
    pthread_condattr_destroy(&attr);
    *why = client_hello(client);
    vg_wire_link_stay(&client->link);
    if (!*why)
        return client;
    vg_wire_disconnect(client);
    return NULL;
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
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->lock);
    vg_wire_flush(client);
    if (client->has_helper)
        pthread_join(client->helper, NULL);
    vg_wire_link_shut(&client->link);
    vg_wire_link_close(&client->link);
    for (cl_uint i = 0; i < client->n_roots; i++)
        free(client->roots[i]);
    while (client->events) {
        struct client_event *event = client->events;
        client->events = event->next;
        free(event);
    }
    while (client->reads)
        vg_wire_forget_read(client, client->reads->token);
    free(client->roots);
    free(client->free_ids);
    free(client->batch);
    pthread_cond_destroy(&client->changed);
    pthread_mutex_destroy(&client->sending);
    pthread_mutex_destroy(&client->lock);
    free(client);
}
