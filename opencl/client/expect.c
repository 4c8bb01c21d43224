/* SPDX-License-Identifier: Apache-2.0
 *
 * What the program's side expects from commands that it does not wait for: data, and events.
 */
#include "config.h"

#include <stdlib.h>

#include "opencl/client/private.h"

uint64_t
vg_wire_expect_read(struct vg_wire_client *client, const struct vg_wire_rows *rows,
                    unsigned char *area)
{
    struct client_read *read = malloc(sizeof *read);

    if (!read)
        return 0;
    pthread_mutex_lock(&client->lock);
    *read = (struct client_read){
        .next = client->reads, .token = ++client->token, .rows = *rows, .area = area};
    client->reads = read;
    vg_wire_client_need_helper(client);
    uint64_t token = read->token;
    pthread_cond_signal(&client->helps);
    pthread_mutex_unlock(&client->lock);
    return token;
}

/* Finds a read, and waits if its data is being received. Called under the lock. */
static struct client_read *
expect_await_read(struct vg_wire_client *client, uint64_t token)
{
    struct client_read *read;

    while ((read = vg_wire_client_find_read(client, token)) != NULL && read->is_coming)
        pthread_cond_wait(&client->changed, &client->lock);
    return read;
}

void
vg_wire_forget_read(struct vg_wire_client *client, uint64_t token)
{
    pthread_mutex_lock(&client->lock);
    struct client_read *read = expect_await_read(client, token);
    if (read)
        vg_wire_client_end_read(client, read);
    pthread_mutex_unlock(&client->lock);
}

bool
vg_wire_leave_read(struct vg_wire_client *client, uint64_t token)
{
    pthread_mutex_lock(&client->lock);
    struct client_read *read = token ? expect_await_read(client, token) : NULL;
    if (read)
        read->is_left = true;
    pthread_mutex_unlock(&client->lock);
    return read;
}

uint64_t
vg_wire_expect_event(struct vg_wire_client *client, vg_wire_notify call, cl_event event,
                     void *user_data)
{
    struct client_event *expected = malloc(sizeof *expected);
    const struct vg_wire_object *object = vg_wire_object(event);

    if (!expected)
        return 0;
    pthread_mutex_lock(&client->lock);
    *expected = (struct client_event){.next = client->events,
                                      .token = ++client->token,
                                      .call = call,
                                      .event = event,
                                      .queue = object->queue,
                                      .first = vg_wire_client_first(object),
                                      .number = object->number,
                                      .user_data = user_data};
    client->events = expected;
    vg_wire_client_need_helper(client);
    uint64_t token = expected->token;
    pthread_cond_signal(&client->helps);
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
