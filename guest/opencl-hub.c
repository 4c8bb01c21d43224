/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guest/opencl-hub-private.h"
#include "guest/process.h"
#include "guest/socket.h"
#include "guest/util.h"

enum {
    /* The time for a program to say hello. */
    HELLO_MS = 5000,
    /* The maximum number of files that are handled before the agent does something else. */
    EVENTS_MAX = 64,
};

/* The numbers of the two listening sockets in epoll events. Those of workers and programs
 * follow. */
enum {
    HUB_PROGRAMS,
    HUB_WORKERS,
    HUB_WORKER_FIRST,
    HUB_FIRST = HUB_WORKER_FIRST + VG_OPENCL_WORKERS_MAX
};

/* Messages on the file are handled according to `number`. */
static bool
hub_watch(const vg_opencl_hub *hub, int fd, uint64_t number)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = number};

    return epoll_ctl(hub->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* ---- workers ---- */

static void
hub_end_worker(vg_opencl_hub *hub, struct hub_worker *worker)
{
    close(worker->fd);
    worker->fd = -1;
    for (size_t i = 0; i < VG_OPENCL_PROGRAMS_MAX; i++) {
        struct hub_program *program = &hub->programs[i];
        if (program->number == 0 || program->worker != worker)
            continue;
        program->worker = NULL;
        /* A worker that prepares a move ends when everything is done, or it has crashed. */
        if (worker->is_hand || program->told == HUB_TOLD_PREPARE)
            vg_opencl_talk_let_go_on(hub, program);
    }
}

/* Ends a worker that does not read. The last messages of one that has exited may still have to be
 * read, so it is not ended here. */
void
vg_opencl_hub_send_worker(vg_opencl_hub *hub, struct hub_worker *worker, const char *text)
{
    if (worker->fd >= 0 && send(worker->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
        errno != EPIPE && errno != ECONNRESET)
        hub_end_worker(hub, worker);
}

void
vg_opencl_hub_send_all(vg_opencl_hub *hub, const char *format, ...)
{
    char text[VG_OPENCL_LINE_MAX + 64];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    for (size_t i = 0; i < VG_OPENCL_WORKERS_MAX; i++)
        vg_opencl_hub_send_worker(hub, &hub->workers[i], text);
}

/* Describes a program in lines for workers, of up to 2 * VG_OPENCL_LINE_MAX bytes. */
static void
hub_describe(const vg_opencl_hub *hub, const struct hub_program *program, char *ret, size_t size)
{
    vg_guest_put(ret, size,
                 "program %" PRIu32 " %d %" PRIu64 " %s %" PRId64 " %" PRId64 " %" PRId64
                 " %" PRId64 " %" PRId64 " %s\n",
                 program->number, (int)program->pid, program->start,
                 program->told == HUB_TOLD_PREPARE ? "stopping"
                 : program->is_released            ? "released"
                                                   : "running",
                 program->bytes, program->stopped_us, program->release_us, program->return_us,
                 program->stop_us,
                 *program->place      ? program->place
                 : program->is_remote ? "remote"
                                      : "own");
    size_t used = strlen(ret);
    if (vg_opencl_seen_has(&hub->seen, program->pid, program->start))
        vg_guest_put(ret + used, size - used, "seen %" PRIu32 "\n", program->number);
}

void
vg_opencl_hub_announce(vg_opencl_hub *hub, const struct hub_program *program)
{
    char text[2 * VG_OPENCL_LINE_MAX];

    hub_describe(hub, program, text, sizeof text);
    for (size_t i = 0; i < VG_OPENCL_WORKERS_MAX; i++)
        vg_opencl_hub_send_worker(hub, &hub->workers[i], text);
}

static void
hub_add_worker(vg_opencl_hub *hub)
{
    int fd = accept4(hub->workers_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct hub_worker *worker = NULL;
    static char text[VG_OPENCL_MESSAGE_MAX];
    size_t used = 0;

    for (size_t i = 0; i < VG_OPENCL_WORKERS_MAX && !worker; i++)
        worker = hub->workers[i].fd < 0 ? &hub->workers[i] : NULL;
    if (fd < 0)
        return;
    if (!worker || !hub_watch(hub, fd, HUB_WORKER_FIRST + (uint64_t)(worker - hub->workers))) {
        close(fd);
        return;
    }
    *worker = (struct hub_worker){.fd = fd};
    /* The earlier list is no longer valid. */
    text[0] = '\0';
    for (size_t i = 0; i < VG_OPENCL_PROGRAMS_MAX; i++) {
        if (hub->programs[i].number != 0 && hub->programs[i].is_known)
            hub_describe(hub, &hub->programs[i], text + used, sizeof text - used);
        used += strlen(text + used);
    }
    vg_guest_put(text + used, sizeof text - used, "all\n");
    vg_opencl_hub_send_worker(hub, worker, text);
}

/* ---- what workers want ---- */

static struct hub_program *
hub_find_program(vg_opencl_hub *hub, uint32_t number)
{
    for (size_t i = 0; i < VG_OPENCL_PROGRAMS_MAX && number > 0; i++)
        if (hub->programs[i].number == number)
            return &hub->programs[i];
    return NULL;
}

static void
hub_read_worker(vg_opencl_hub *hub, struct hub_worker *worker)
{
    char text[VG_OPENCL_LINE_MAX];
    uint32_t number;
    int at = 0;

    ssize_t got = worker->fd >= 0 ? recv(worker->fd, text, sizeof text - 1, 0) : 0;
    if (got <= 0) {
        if (got == 0 || (errno != EAGAIN && errno != EINTR && errno != ECONNRESET))
            hub_end_worker(hub, worker);
        return;
    }
    text[got] = '\0';
    if (strcmp(text, "hand") == 0) {
        worker->is_hand = true;
    } else if (sscanf(text, "seen %" SCNu32, &number) == 1) {
        const struct hub_program *program = hub_find_program(hub, number);
        if (program && !vg_opencl_seen_has(&hub->seen, program->pid, program->start))
            vg_opencl_seen_add(&hub->seen, program->pid, program->start);
    } else if (sscanf(text, "tell %" SCNu32 " %n", &number, &at) == 1 && at > 0) {
        struct hub_program *program = hub_find_program(hub, number);
        if (program && program->is_known)
            vg_opencl_talk_send(hub, worker, program, text + at);
    }
}

/* ---- what programs say ---- */

void
vg_opencl_hub_end_program(vg_opencl_hub *hub, struct hub_program *program, const char *why)
{
    uint32_t number = program->number;
    bool was_known = program->is_known;

    if (why)
        vg_guest_log(LOG_WARNING, "OpenCL program is disconnected pid=%d why='%s'",
                     (int)program->pid, why);
    close(program->fd);
    *program = (struct hub_program){.fd = -1};
    if (was_known)
        vg_opencl_hub_send_all(hub, "gone %" PRIu32 "\n", number);
}

static void
hub_read_program(vg_opencl_hub *hub, struct hub_program *program)
{
    uint32_t number = program->number;
    ssize_t got =
        recv(program->fd, program->line + program->used, sizeof program->line - program->used, 0);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        vg_opencl_hub_end_program(hub, program, NULL);
        return;
    }
    program->used += (size_t)got;
    for (char *end; (end = memchr(program->line, '\n', program->used));) {
        char line[VG_OPENCL_LINE_MAX];
        size_t size = (size_t)(end - program->line) + 1;
        memcpy(line, program->line, size);
        line[size - 1] = '\0';
        program->used -= size;
        memmove(program->line, end + 1, program->used);
        vg_opencl_talk_take(hub, program, line);
        if (program->number != number)
            return;
    }
    if (program->used == sizeof program->line)
        vg_opencl_hub_end_program(hub, program, "its message is too long");
}

/* ---- who comes ---- */

/* Returns a free place, or NULL if there are enough programs, or enough from this user. */
static struct hub_program *
hub_find_place(vg_opencl_hub *hub, uid_t uid)
{
    struct hub_program *place = NULL;
    size_t of_user = 0;

    for (size_t i = 0; i < VG_OPENCL_PROGRAMS_MAX; i++) {
        if (hub->programs[i].number == 0)
            place = place ? place : &hub->programs[i];
        else
            of_user += hub->programs[i].uid == uid ? 1 : 0;
    }
    return uid != 0 && of_user >= VG_OPENCL_PER_USER_MAX ? NULL : place;
}

static void
hub_add_program(vg_opencl_hub *hub)
{
    int fd = accept4(hub->programs_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct ucred peer = {.pid = 0};
    socklen_t size = sizeof peer;
    struct vg_guest_process is;

    if (fd < 0)
        return;
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size);
    struct hub_program *place = hub_find_place(hub, peer.uid);
    if (!place && !hub->is_full_told)
        vg_guest_log(LOG_WARNING, "too many OpenCL programs pid=%d uid=%u", (int)peer.pid,
                     (unsigned int)peer.uid);
    hub->is_full_told = !place;
    /* A program that is not visible here could not be distinguished from others. */
    if (!place || peer.pid <= 0 || vg_guest_process_read(hub->root, peer.pid, &is) != 0) {
        close(fd);
        return;
    }
    if (++hub->last_number < HUB_FIRST)
        hub->last_number = HUB_FIRST;
    *place = (struct hub_program){.number = hub->last_number,
                                  .fd = fd,
                                  .pid = peer.pid,
                                  .start = is.start,
                                  .uid = peer.uid,
                                  .bytes = -1,
                                  .stopped_us = -1,
                                  .release_us = -1,
                                  .return_us = -1,
                                  .stop_us = -1,
                                  .due_ms = vg_guest_now_ms() + HELLO_MS};
    if (!hub_watch(hub, fd, place->number))
        vg_opencl_hub_end_program(hub, place, strerror(errno));
}

int
vg_opencl_hub_fd(const vg_opencl_hub *hub)
{
    return hub->epoll_fd;
}

void
vg_opencl_hub_serve(vg_opencl_hub *hub)
{
    struct epoll_event events[EVENTS_MAX];
    int n = epoll_wait(hub->epoll_fd, events, EVENTS_MAX, 0);

    for (int i = 0; i < n; i++) {
        uint64_t number = events[i].data.u64;
        /* A program that an earlier event has ended no longer exists. */
        struct hub_program *program = hub_find_program(hub, (uint32_t)number);
        if (number == HUB_PROGRAMS)
            hub_add_program(hub);
        else if (number == HUB_WORKERS)
            hub_add_worker(hub);
        else if (number < HUB_FIRST)
            hub_read_worker(hub, &hub->workers[number - HUB_WORKER_FIRST]);
        else if (program)
            hub_read_program(hub, program);
    }
}

void
vg_opencl_hub_look(vg_opencl_hub *hub)
{
    int64_t now_ms = vg_guest_now_ms();

    for (size_t i = 0; i < VG_OPENCL_PROGRAMS_MAX; i++) {
        struct hub_program *program = &hub->programs[i];
        struct vg_guest_process is;
        if (program->number == 0)
            continue;
        /* A child may keep the connection. */
        if (vg_guest_process_read(hub->root, program->pid, &is) != 0 || is.ended ||
            is.start != program->start) {
            vg_opencl_hub_end_program(hub, program, NULL);
        } else if (!program->is_known && now_ms >= program->due_ms) {
            vg_opencl_hub_end_program(hub, program, "it has sent no hello");
        } else if (program->is_known && now_ms >= program->due_ms) {
            program->due_ms = now_ms + VG_OPENCL_ORPHAN_MS;
            vg_guest_log(LOG_NOTICE, "OpenCL program was not resumed, trying again pid=%d",
                         (int)program->pid);
            vg_opencl_talk_let_go_on(hub, program);
        }
    }
}

/* ---- the sockets ---- */

static int
hub_open(vg_opencl_hub *hub)
{
    vg_guest_auto char *dir = vg_guest_format("%s" VG_OPENCL_DIR, hub->root);

    if (mkdir(dir, 0755) != 0 && errno != EEXIST)
        return -1;
    hub->programs_fd = vg_guest_socket_listen(hub->root, VG_OPENCL_SOCKET, SOCK_STREAM, 0666);
    hub->workers_fd = vg_guest_socket_listen(hub->root, VG_OPENCL_HUB_SOCKET, SOCK_SEQPACKET, 0600);
    hub->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    return hub->programs_fd >= 0 && hub->workers_fd >= 0 && hub->epoll_fd >= 0 &&
                   hub_watch(hub, hub->programs_fd, HUB_PROGRAMS) &&
                   hub_watch(hub, hub->workers_fd, HUB_WORKERS)
               ? 0
               : -1;
}

vg_opencl_hub *
vg_opencl_hub_new(const char *root)
{
    vg_opencl_hub *hub = vg_guest_alloc(sizeof *hub);

    hub->root = root;
    vg_opencl_seen_read(&hub->seen, root);
    hub->epoll_fd = hub->programs_fd = hub->workers_fd = -1;
    for (size_t i = 0; i < VG_OPENCL_WORKERS_MAX; i++)
        hub->workers[i].fd = -1;
    if (hub_open(hub) == 0)
        return hub;
    vg_guest_log(LOG_WARNING,
                 "OpenCL programs cannot connect path='%s" VG_OPENCL_SOCKET "' error='%s'", root,
                 strerror(errno));
    vg_opencl_hub_free(hub);
    return NULL;
}

void
vg_opencl_hub_free(vg_opencl_hub *hub)
{
    if (!hub)
        return;
    for (size_t i = 0; i < VG_OPENCL_PROGRAMS_MAX; i++)
        if (hub->programs[i].number != 0)
            close(hub->programs[i].fd);
    for (size_t i = 0; i < VG_OPENCL_WORKERS_MAX; i++)
        close(hub->workers[i].fd);
    close(hub->programs_fd);
    close(hub->workers_fd);
    close(hub->epoll_fd);
    free(hub);
}
