/* SPDX-License-Identifier: Apache-2.0
 *
 * Receives messages from the proxy on the program's side.
 */
#include "config.h"

#include <inttypes.h>
#include <stdlib.h>

#include "opencl/base/say.h"
#include "opencl/client/private.h"

/* ---- receiving: whoever waits does it, for all ---- */

void
vg_wire_client_break(struct vg_wire_client *client)
{
    const char *why = vg_wire_link_why(&client->link);

    pthread_mutex_lock(&client->lock);
    if (!client->is_broken && !client->is_closing && client->is_staying &&
        !vg_wire_link_has_left(&client->link))
        vg_cl_say("the proxy has disappeared%s%s; OpenCL no longer works in this program",
                  why ? ": " : "", why ? why : "");
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
receive_take_waiting(struct vg_wire_client *client, uint64_t number)
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

/* Receives the answer to an abandoned call. */
static bool
receive_skip(struct vg_wire_client *client, const struct vg_wire_head *head)
{
    char bytes[4096];
    bool ok = false;

    pthread_mutex_lock(&client->lock);
    for (unsigned i = 0; i < client->n_left && !ok; i++)
        if (client->left[i] == head->number) {
            client->left[i] = client->left[--client->n_left];
            ok = true;
        }
    pthread_mutex_unlock(&client->lock);
    uint64_t left = head->size + head->data;
    ok = ok && !(head->flags & VG_WIRE_ROOM) && head->data <= VG_WIRE_DATA_MAX;
    for (size_t n; ok && left > 0; left -= n) {
        n = left < sizeof bytes ? left : sizeof bytes;
        ok = vg_wire_link_receive(&client->link, bytes, n);
    }
    return ok;
}

static bool
receive_answer(struct vg_wire_client *client, const struct vg_wire_head *head)
{
    struct vg_wire_call *call = receive_take_waiting(client, head->number);

    if (!call)
        return receive_skip(client, head);
    call->answer = head->size > sizeof call->small ? malloc(head->size) : (void *)call->small;
    bool is_staged = head->flags & VG_WIRE_ROOM;
    bool ok = call->answer && (head->data == 0 || head->data == call->sink_size) &&
              (head->data == 0 || is_staged == (call->area != NULL)) &&
              vg_wire_link_receive(&client->link, call->answer, head->size) &&
              (is_staged || vg_wire_link_receive(&client->link, call->sink, head->data));
    vg_wire_in_begin(&call->in, call->answer, call->answer ? head->size : 0);
    call->got = head->data;
    pthread_mutex_lock(&client->lock);
    call->is_broken = !ok;
    call->is_done = true;
    pthread_cond_broadcast(&client->changed);
    pthread_mutex_unlock(&client->lock);
    return ok;
}

/* Called under the lock. */
struct client_read *
vg_wire_client_find_read(struct vg_wire_client *client, uint64_t token)
{
    struct client_read *read = client->reads;

    while (read && read->token != token)
        read = read->next;
    return read;
}

/* Ends READ. Called under the lock. */
void
vg_wire_client_end_read(struct vg_wire_client *client, struct client_read *read)
{
    struct client_read **link = &client->reads;

    while (*link != read)
        link = &(*link)->next;
    *link = read->next;
    if (read->area)
        vg_wire_link_unstage(&client->link, read->area);
    free(read);
    pthread_cond_broadcast(&client->changed);
}

/* Receives and discards SIZE bytes. */
static bool
receive_nothing(struct vg_wire_client *client, size_t size)
{
    char bytes[4096];

    for (size_t n; size > 0; size -= n) {
        n = size < sizeof bytes ? size : sizeof bytes;
        if (!vg_wire_link_receive(&client->link, bytes, n))
            return false;
    }
    return true;
}

/* Receives the data of an expected read. */
static bool
receive_data(struct vg_wire_client *client, const struct client_read *read, bool is_staged)
{
    size_t size = vg_wire_rows_size(&read->rows);

    if (read->is_left)
        return is_staged || receive_nothing(client, size);
    if (is_staged) {
        vg_wire_rows_scatter(&read->rows, read->area);
        return true;
    }
    if (vg_wire_rows_are_one(&read->rows))
        return vg_wire_link_receive(&client->link, read->rows.at, size);
    void *all = malloc(size);
    bool ok = all && vg_wire_link_receive(&client->link, all, size);
    if (ok)
        vg_wire_rows_scatter(&read->rows, all);
    free(all);
    return ok;
}

/* Handles a read without data: the command has failed. */
static bool
receive_read(struct vg_wire_client *client, const struct vg_wire_head *head)
{
    bool is_staged = head->flags & VG_WIRE_ROOM;

    pthread_mutex_lock(&client->lock);
    struct client_read *read = vg_wire_client_find_read(client, head->number);
    bool ok = read && head->size == 0 &&
              (head->data == 0 ||
               (head->data == vg_wire_rows_size(&read->rows) && is_staged == (read->area != NULL)));
    if (ok)
        read->is_coming = true;
    pthread_mutex_unlock(&client->lock);
    if (!ok)
        return false;
    if (head->data)
        ok = receive_data(client, read, is_staged);
    pthread_mutex_lock(&client->lock);
    vg_wire_client_end_read(client, read);
    pthread_mutex_unlock(&client->lock);
    return ok;
}

static bool
receive_event(struct vg_wire_client *client, const struct vg_wire_head *head)
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
    pthread_cond_signal(&client->helps);
    pthread_mutex_unlock(&client->lock);
    return found;
}

/* Receives the last message, which has the reason. */
static bool
receive_end(const struct vg_wire_head *head)
{
    vg_cl_say("the proxy terminated this program's OpenCL: %s %" PRIu64 " s%s",
              head->op == VG_WIRE_LONG ? "a command took longer than"
                                       : "its main process hangs and has not assigned the GPU for",
              head->number, head->op == VG_WIRE_LONG ? " while others waited" : "");
    return false;
}

/* Receives the reason as text. */
static bool
receive_ended(struct vg_wire_client *client, const struct vg_wire_head *head)
{
    char why[VG_WIRE_WHY_MAX + 1] = "";

    if (head->size > VG_WIRE_WHY_MAX || !vg_wire_link_receive(&client->link, why, head->size))
        return false;
    for (char *at = why; *at; at++)
        *at = *at >= 0x20 && *at < 0x7f ? *at : '?';
    vg_cl_say("the proxy terminated this program's OpenCL: %s", why);
    return false;
}

/* Receives one message. Only the receiving thread calls this. */
static void
receive(struct vg_wire_client *client)
{
    struct vg_wire_head head;

    bool ok =
        vg_wire_link_receive(&client->link, &head, sizeof head) && head.size <= VG_WIRE_BODY_MAX;
    if (ok && head.op == VG_WIRE_ANSWER)
        ok = receive_answer(client, &head);
    else if (ok && head.op == VG_WIRE_READ)
        ok = receive_read(client, &head);
    else if (ok && (head.op == VG_WIRE_LONG || head.op == VG_WIRE_MUTE))
        ok = receive_end(&head);
    else if (ok && head.op == VG_WIRE_ENDED)
        ok = receive_ended(client, &head);
    else if (ok && head.op == VG_WIRE_OUTPUT)
        ok = vg_wire_client_output(client, &head);
    else if (ok)
        ok = head.op == VG_WIRE_EVENT && receive_event(client, &head);
    if (!ok)
        vg_wire_client_break(client);
}

/* Receives one message, unless another thread is receiving. Called under the lock. */
void
vg_wire_client_receive(struct vg_wire_client *client)
{
    client->is_receiving = true;
    pthread_mutex_unlock(&client->lock);
    receive(client);
    pthread_mutex_lock(&client->lock);
    client->is_receiving = false;
    pthread_cond_broadcast(&client->changed);
}

/* ---- waiting ---- */

#define RECEIVE_LOOK_MS 20

static _Thread_local bool (*receive_is_over)(void *data);
static _Thread_local void *receive_is_over_data;

void
vg_wire_set_patience(bool (*is_over)(void *data), void *data)
{
    receive_is_over = is_over;
    receive_is_over_data = data;
}

bool
vg_wire_is_cut(const struct vg_wire_client *client)
{
    return vg_wire_link_is_cut(&client->link);
}

/* Abandons CALL, unless its answer is already being received, or it creates several objects. Called
 * under the lock. */
static bool
receive_leave(struct vg_wire_call *call)
{
    struct vg_wire_client *client = call->client;

    if (call->n_new > 1 || client->n_left == CLIENT_LEFT_MAX || !vg_wire_is_cut(client) ||
        !receive_is_over(receive_is_over_data))
        return false;
    for (struct vg_wire_call **link = &client->waiting; *link; link = &(*link)->next)
        if (*link == call) {
            *link = call->next;
            client->left[client->n_left++] = call->number;
            call->is_done = true;
            call->is_broken = true;
            if (call->made)
                call->made->is_left = true;
            return true;
        }
    return false;
}

void
vg_wire_client_pause(struct vg_wire_client *client, pthread_cond_t *changed, int64_t us)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += us * 1000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(changed, &client->lock, &until);
}

/* Starts to receive only what is available. Called under the lock. */
static void
receive_with_patience(struct vg_wire_call *call)
{
    struct vg_wire_client *client = call->client;

    if (receive_leave(call))
        return;
    if (client->is_receiving) {
        vg_wire_client_pause(client, &client->changed, RECEIVE_LOOK_MS * 1000);
        return;
    }
    pthread_mutex_unlock(&client->lock);
    vg_wire_link_wait(&client->link, RECEIVE_LOOK_MS);
    pthread_mutex_lock(&client->lock);
    if (!client->is_receiving && !call->is_done && vg_wire_link_wait(&client->link, 0))
        vg_wire_client_receive(client);
}

void
vg_wire_client_wait(struct vg_wire_call *call)
{
    struct vg_wire_client *client = call->client;

    pthread_mutex_lock(&client->lock);
    while (!call->is_done) {
        if (receive_is_over && client->link.session)
            receive_with_patience(call);
        else if (client->is_receiving)
            pthread_cond_wait(&client->changed, &client->lock);
        else
            vg_wire_client_receive(client);
    }
    pthread_mutex_unlock(&client->lock);
}

/* Receives while this side sends: otherwise, both sides may wait for each other. */
void
vg_wire_client_take(void *data)
{
    struct vg_wire_client *client = data;

    pthread_mutex_lock(&client->lock);
    if (client->is_receiving)
        vg_wire_client_pause(client, &client->changed, 1000);
    else if (!client->is_broken)
        vg_wire_client_receive(client);
    pthread_mutex_unlock(&client->lock);
}

/* ---- what comes when a command is done ---- */

/* In an in-order queue, commands before the event's command are also complete. */
uint64_t
vg_wire_client_first(const struct vg_wire_object *event)
{
    return event->order == VG_WIRE_ORDER_IN ? 0 : event->number;
}

/* Returns whether data of reads in QUEUE is still expected. Called under the lock. */
static bool
receive_is_awaited(const struct vg_wire_client *client, uint64_t queue, uint64_t first,
                   uint64_t last)
{
    for (const struct client_read *read = client->reads; read; read = read->next)
        if (read->queue == queue && read->number >= first && read->number <= last && !read->is_left)
            return true;
    return false;
}

cl_int
vg_wire_settle(struct vg_wire_client *client, uint64_t queue, uint64_t first, uint64_t last)
{
    bool is_awaited;

    pthread_mutex_lock(&client->lock);
    while ((is_awaited = receive_is_awaited(client, queue, first, last)) && !client->is_broken) {
        if (client->is_receiving)
            pthread_cond_wait(&client->changed, &client->lock);
        else
            vg_wire_client_receive(client);
    }
    pthread_mutex_unlock(&client->lock);
    return is_awaited ? VG_WIRE_BROKEN : CL_SUCCESS;
}

cl_int
vg_wire_settle_event(const struct vg_wire_object *event)
{
    return event->queue ? vg_wire_settle(event->client, event->queue, vg_wire_client_first(event),
                                         event->number)
                        : CL_SUCCESS;
}

uint64_t
vg_wire_last(struct vg_wire_client *client)
{
    pthread_mutex_lock(&client->lock);
    uint64_t last = client->number;
    pthread_mutex_unlock(&client->lock);
    return last;
}
