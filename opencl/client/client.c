/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "opencl/client/private.h"
#include "opencl/wire/fault.h"

static const char *
client_hello(struct vg_wire_client *client)
{
    struct vg_wire_object lead = {.client = client};
    struct vg_wire_call call;

    vg_wire_call_begin(&call, &lead, VG_WIRE_OP_HELLO);
    vg_wire_put(&call.out, VG_WIRE_MAGIC);
    vg_wire_put(&call.out, VG_WIRE_VERSION);
    vg_wire_put(&call.out, VG_WIRE_TAKES_OUTPUT);
    cl_int result = vg_wire_call_ask(&call);
    const char *wrong = result == CL_SUCCESS         ? NULL
                        : result == CL_INVALID_VALUE ? "the proxy uses another protocol version"
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
    return wrong ? wrong : client->n_roots < all ? "out of memory" : NULL;
}

struct vg_wire_client *
vg_wire_connect(const char *address, const char **why)
{
    struct vg_wire_client *client = calloc(1, sizeof *client);
    pthread_condattr_t attr;

    if (client)
        client->batch = malloc(VG_WIRE_BATCH);
    if (!client || !client->batch || !vg_wire_link_open(&client->link, address)) {
        *why = vg_wire_fault_text() ? vg_wire_fault_text()
               : errno == EACCES
                   ? "it expects another token or VM, or uses another protocol version"
               : errno == EUSERS    ? "it has reached its maximum number of clients"
               : errno == ETIMEDOUT ? "it does not answer"
                                    : strerror(errno);
        if (client)
            free(client->batch);
        free(client);
        return NULL;
    }
    client->dispatch = &vg_wire_dispatch;
    client->ready_end = &client->ready;
    client->is_unbatched = secure_getenv("VGPU_OPENCL_UNBATCHED") != NULL;
    pthread_mutex_init(&client->sending, NULL);
    pthread_mutex_init(&client->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&client->changed, &attr);
    pthread_cond_init(&client->helps, &attr);
    pthread_condattr_destroy(&attr);
    vg_wire_copier_begin(&client->copier);
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
    return !is_broken || why ? why : "it has exited or does not answer";
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
    vg_wire_copier_end(&client->copier);
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
