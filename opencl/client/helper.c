/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread that calls the program's callbacks, and sends gathered messages.
 */
#include "config.h"

#include <signal.h>
#include <stdlib.h>

#include "opencl/client/private.h"

static void
helper_run_ready(struct vg_wire_client *client)
{
    struct client_event *event = client->ready;

    client->ready = event->next;
    if (!client->ready)
        client->ready_end = &client->ready;
    pthread_mutex_unlock(&client->lock);
    if (event->status <= CL_COMPLETE && event->queue &&
        vg_wire_settle(client, event->queue, event->first, event->number) != CL_SUCCESS)
        event->status = VG_WIRE_BROKEN;
    event->call(event->event, event->status, event->user_data);
    free(event);
    pthread_mutex_lock(&client->lock);
}

/* Receives what the proxy sends unasked, if no other thread does. Called under the lock. */
static void
helper_listen(struct vg_wire_client *client, int timeout_ms)
{
    pthread_mutex_unlock(&client->lock);
    bool is_there = vg_wire_link_wait(&client->link, timeout_ms);
    pthread_mutex_lock(&client->lock);
    /* Another thread may have received it in the meantime. */
    if (is_there && !client->is_receiving && !client->waiting && !client->is_broken &&
        vg_wire_link_wait(&client->link, 0))
        vg_wire_client_receive(client);
    else if (is_there)
        vg_wire_client_pause(client, &client->helps, 1000);
}

static void *
helper_run(void *data)
{
    struct vg_wire_client *client = data;

    pthread_mutex_lock(&client->lock);
    while (!client->is_closing) {
        if (client->ready) {
            helper_run_ready(client);
        } else if (client->is_gathering) {
            client->is_gathering = false;
            client->is_pausing = true;
            vg_wire_client_pause(client, &client->helps, VG_WIRE_BATCH_US);
            client->is_pausing = false;
            pthread_mutex_unlock(&client->lock);
            vg_wire_flush(client);
            pthread_mutex_lock(&client->lock);
        } else if ((client->events || client->reads) && !client->is_broken) {
            helper_listen(client, 1);
        } else {
            pthread_cond_wait(&client->helps, &client->lock);
        }
    }
    pthread_mutex_unlock(&client->lock);
    return NULL;
}

/* Called under the lock. */
void
vg_wire_client_need_helper(struct vg_wire_client *client)
{
    sigset_t all, before;

    if (client->has_helper)
        return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    client->has_helper = pthread_create(&client->helper, NULL, helper_run, client) == 0;
    if (client->has_helper)
        pthread_setname_np(client->helper, "vgpu-wire");
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
