/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends messages from the proxy's side.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "opencl/icd/entries.h"
#include "opencl/serve/output.h"
#include "opencl/serve/private.h"

void
vg_serve_break(struct vg_serve *serve)
{
    vg_wire_link_shut(serve->link);
}

void
vg_serve_replace_link(struct vg_serve *serve, int fd, uint64_t taken)
{
    if (serve->link->session)
        vg_wire_session_replace(serve->link->session, fd, taken);
    else
        close(fd);
}

/* Called under the lock for sending. */
static void
serve_send(struct vg_serve *serve, const struct vg_wire_head *head, const void *body,
           const void *data)
{
    struct iovec parts[3] = {
        {(void *)(uintptr_t)head, sizeof *head},
        {(void *)(uintptr_t)body, head->size},
        {(void *)(uintptr_t)data, head->data},
    };
    int n = head->flags & VG_WIRE_ROOM ? 2 : 3;

    if (!vg_wire_link_send(serve->link, parts, n, NULL, NULL))
        vg_serve_break(serve);
}

static void
serve_send_read(struct vg_serve *serve, const struct serve_read *read, bool is_well)
{
    size_t size = is_well ? vg_wire_rows_size(&read->rows) : 0;

    if (read->room) {
        struct vg_wire_head there = {
            .op = VG_WIRE_READ, .flags = VG_WIRE_ROOM, .number = read->token, .data = size};
        if (size && read->rows.at != read->room)
            vg_wire_rows_gather(&read->rows, read->room);
        serve_send(serve, &there, NULL, NULL);
        return;
    }
    void *all = size == 0 || vg_wire_rows_are_one(&read->rows) ? NULL : malloc(size);

    if (all)
        vg_wire_rows_gather(&read->rows, all);
    else if (!vg_wire_rows_are_one(&read->rows))
        size = 0;
    struct vg_wire_head head = {.op = VG_WIRE_READ, .number = read->token, .data = size};
    serve_send(serve, &head, NULL, all ? all : read->rows.at);
    free(all);
}

/* Removes completed reads from the list. */
static struct serve_read *
serve_take_done(struct vg_serve *serve)
{
    struct serve_read *done = NULL, **done_end = &done;

    pthread_mutex_lock(&serve->listing);
    for (struct serve_read **link = &serve->reads; *link;) {
        struct serve_read *read = *link;
        read->status = CL_COMPLETE;
        vg_cl_dispatch.clGetEventInfo(read->event, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                      sizeof read->status, &read->status, NULL);
        if (read->status > CL_COMPLETE) {
            link = &read->next;
            continue;
        }
        *link = read->next;
        read->next = NULL;
        *done_end = read;
        done_end = &read->next;
    }
    pthread_mutex_unlock(&serve->listing);
    return done;
}

/* Sends earlier output before the message that completes the client's command. Called under the
 * lock. */
static void
serve_send_output(struct vg_serve *serve)
{
    struct vg_serve_text text;

    if (!vg_serve_output_take(serve->output, &text))
        return;
    const struct vg_wire_head head = {
        .op = VG_WIRE_OUTPUT, .number = text.dropped, .data = text.size};
    serve_send(serve, &head, NULL, text.bytes);
    free(text.bytes);
}

/* Also sends much text while no command ends, so that less is dropped. */
static void *
serve_run_output(void *data)
{
    struct vg_serve *serve = data;

    for (;;) {
        vg_serve_output_await(serve->output);
        pthread_mutex_lock(&serve->sending);
        serve_send_output(serve);
        pthread_mutex_unlock(&serve->sending);
    }
    return NULL;
}

void
vg_serve_send_output(struct vg_serve *serve, struct vg_serve_output *output)
{
    pthread_t thread;

    pthread_mutex_lock(&serve->sending);
    serve->output = output;
    pthread_mutex_unlock(&serve->sending);
    if (pthread_create(&thread, NULL, serve_run_output, serve) == 0)
        pthread_detach(thread);
}

/* Sends completed reads before any message that reports a later state to the client. Called under
 * the lock. */
static void
serve_send_reads(struct vg_serve *serve)
{
    struct serve_read *done = serve_take_done(serve);

    while (done) {
        struct serve_read *read = done;
        done = read->next;
        serve_send_read(serve, read, read->status == CL_COMPLETE);
        vg_cl_dispatch.clReleaseEvent(read->event);
        vg_serve_free_data(serve, read->bytes, vg_wire_rows_size(&read->rows));
        if (read->room)
            vg_serve_area_end(serve);
        free(read);
    }
}

void
vg_serve_flush_reads(struct vg_serve *serve)
{
    pthread_mutex_lock(&serve->sending);
    serve_send_reads(serve);
    pthread_mutex_unlock(&serve->sending);
}

static void
serve_wake_sender(struct vg_serve *serve)
{
    pthread_mutex_lock(&serve->listing);
    serve->has_more = true;
    pthread_cond_signal(&serve->more);
    pthread_mutex_unlock(&serve->listing);
}

static void CL_CALLBACK
serve_on_read(cl_event event, cl_int status, void *data)
{
    struct vg_serve *serve = data;

    (void)event;
    (void)status;
    if (serve->has_sender) {
        serve_wake_sender(serve);
        return;
    }
    vg_serve_flush_reads(serve);
}

bool
vg_serve_read_later(struct vg_serve_call *call, uint64_t token, cl_event event,
                    const struct vg_wire_rows *rows, void *bytes)
{
    struct vg_serve *serve = call->serve;
    unsigned char *room = call->room_size == vg_wire_rows_size(rows) ? call->room : NULL;
    struct serve_read *read = malloc(sizeof *read);

    if (!read)
        return false;
    vg_cl_dispatch.clRetainEvent(event);
    pthread_mutex_lock(&serve->listing);
    *read = (struct serve_read){.next = serve->reads,
                                .token = token,
                                .event = event,
                                .rows = *rows,
                                .room = room,
                                .bytes = bytes};
    serve->reads = read;
    pthread_mutex_unlock(&serve->listing);
    if (room)
        call->room = NULL;
    /* Without it, the data is sent with the next answer. */
    vg_cl_dispatch.clSetEventCallback(event, CL_COMPLETE, serve_on_read, serve);
    return true;
}

void
vg_serve_cancel_reads(struct vg_serve *serve, const void *pointer)
{
    /* Nothing that is removed from the list is sent after this. */
    pthread_mutex_lock(&serve->sending);
    pthread_mutex_lock(&serve->listing);
    for (struct serve_read *read = serve->reads; read; read = read->next)
        if (read->rows.at == pointer)
            read->rows.slices = 0;
    pthread_mutex_unlock(&serve->listing);
    pthread_mutex_unlock(&serve->sending);
}

static void
serve_send_event(struct vg_serve *serve, uint64_t token, cl_int status)
{
    uint64_t body = (uint64_t)(int64_t)status;
    struct vg_wire_head head = {.size = sizeof body, .op = VG_WIRE_EVENT, .number = token};

    pthread_mutex_lock(&serve->sending);
    serve_send_reads(serve);
    serve_send_output(serve);
    serve_send(serve, &head, &body, NULL);
    pthread_mutex_unlock(&serve->sending);
}

void
vg_serve_say_event(struct vg_serve *serve, uint64_t token, cl_int status)
{
    struct serve_said *said = serve->has_sender ? malloc(sizeof *said) : NULL;

    if (!said) {
        serve_send_event(serve, token, status);
        return;
    }
    *said = (struct serve_said){NULL, token, status};
    pthread_mutex_lock(&serve->listing);
    *serve->said_end = said;
    serve->said_end = &said->next;
    pthread_mutex_unlock(&serve->listing);
    serve_wake_sender(serve);
}

static void *
serve_run_sender(void *data)
{
    struct vg_serve *serve = data;

    for (;;) {
        pthread_mutex_lock(&serve->listing);
        while (!serve->has_more)
            pthread_cond_wait(&serve->more, &serve->listing);
        serve->has_more = false;
        struct serve_said *said = serve->said;
        serve->said = NULL;
        serve->said_end = &serve->said;
        pthread_mutex_unlock(&serve->listing);
        vg_serve_flush_reads(serve);
        while (said) {
            struct serve_said *next = said->next;
            serve_send_event(serve, said->token, said->status);
            free(said);
            said = next;
        }
    }
    return NULL;
}

bool
vg_serve_begin_sender(struct vg_serve *serve)
{
    pthread_t thread;

    serve->has_sender = pthread_create(&thread, NULL, serve_run_sender, serve) == 0;
    if (serve->has_sender)
        pthread_detach(thread);
    return serve->has_sender;
}

/* A client that does not receive gets no messages. */
static void
serve_say_last(struct vg_serve *serve, const void *bytes, size_t size)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 200000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (pthread_mutex_timedlock(&serve->sending, &until) != 0)
        return;
    vg_wire_link_offer(serve->link, bytes, size);
    vg_wire_link_finish(serve->link, 1000);
}

_Noreturn void
vg_serve_end(struct vg_serve *serve, uint16_t what, unsigned seconds)
{
    const struct vg_wire_head head = {.op = what, .number = seconds};

    serve_say_last(serve, &head, sizeof head);
    _exit(EXIT_FAILURE);
}

void
vg_serve_say_end(struct vg_serve *serve, const char *why)
{
    struct {
        struct vg_wire_head head;
        char why[VG_WIRE_WHY_MAX];
    } last = {.head = {.op = VG_WIRE_ENDED}};
    const size_t size = strnlen(why, sizeof last.why);

    last.head.size = (uint32_t)size;
    memcpy(last.why, why, size);
    serve_say_last(serve, &last, sizeof last.head + size);
}

_Noreturn void
vg_serve_end_why(struct vg_serve *serve, const char *why)
{
    vg_serve_say_end(serve, why);
    _exit(EXIT_FAILURE);
}

void
vg_serve_answer(struct vg_serve_call *call, cl_int result)
{
    struct vg_serve *serve = call->serve;
    uint64_t first = (uint64_t)(int64_t)result;
    bool has_room = call->answer && call->answer == call->room;
    struct vg_wire_head head = {.size = (uint32_t)(sizeof first + call->out.size),
                                .op = VG_WIRE_ANSWER,
                                .flags = has_room ? VG_WIRE_ROOM : 0,
                                .number = call->head.number,
                                .data = call->answer_size};
    struct iovec parts[4] = {
        {&head, sizeof head},
        {&first, sizeof first},
        {call->out.bytes, call->out.size},
        {(void *)(uintptr_t)call->answer, has_room ? 0 : call->answer_size},
    };

    pthread_mutex_lock(&serve->sending);
    serve_send_reads(serve);
    serve_send_output(serve);
    if (call->out.is_bad || !vg_wire_link_send(serve->link, parts, 4, NULL, NULL))
        vg_serve_break(serve);
    pthread_mutex_unlock(&serve->sending);
}
