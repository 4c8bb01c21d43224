/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/opencl-link.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guest/child.h"
#include "guest/process.h"
#include "guest/socket.h"
#include "guest/util.h"

enum {
    /* The time for the agent to list the programs. */
    LIST_MS = 5000,
    /* The time for the agent to read the messages to many programs. */
    FULL_MS = 1000,
};

static struct vg_opencl_program *
link_find(struct vg_opencl_link *link, uint32_t number)
{
    for (size_t i = 0; i < link->n; i++) {
        if (link->programs[i].number == number)
            return &link->programs[i];
    }
    return NULL;
}

/* "program NUMBER PID START STATE BYTES STOPPED_US RELEASE_US RETURN_US STOP_US PLACE" */
static void
link_add(struct vg_opencl_link *link, const char *line)
{
    struct vg_opencl_program *program = &link->programs[link->n];
    char state[16];
    int at = 0;

    if (link->n == VG_OPENCL_PROGRAMS_MAX)
        return;
    *program = (struct vg_opencl_program){.told_us = -1};
    if (sscanf(line,
               "program %" SCNu32 " %d %" SCNu64 " %15s %" SCNd64 " %" SCNd64 " %" SCNd64
               " %" SCNd64 " %" SCNd64 " %n",
               &program->number, &program->pid, &program->start, state, &program->bytes,
               &program->stopped_us, &program->release_us, &program->return_us, &program->stop_us,
               &at) != 9 ||
        at == 0)
        return;
    program->state = strcmp(state, "released") == 0   ? VG_OPENCL_RELEASED
                     : strcmp(state, "stopping") == 0 ? VG_OPENCL_STOPPING
                                                      : VG_OPENCL_RUNNING;
    program->is_remote = strcmp(line + at, "remote") == 0;
    if (!program->is_remote && strcmp(line + at, "own") != 0)
        vg_guest_put(program->place, sizeof program->place, "%s", line + at);
    program->is_away = *program->place && program->state == VG_OPENCL_RUNNING;
    vg_guest_auto char *dir = vg_guest_format("%s/proc/%d", link->root, (int)program->pid);
    vg_guest_process_name(dir, program->comm, sizeof program->comm);
    link->n++;
}

static void
link_answer(struct vg_opencl_program *program, enum vg_opencl_answer answer, const char *why)
{
    program->answer = answer;
    vg_guest_put(program->why, sizeof program->why, "%s", why);
}

/* Handles an answer with the program's own text. */
static void
link_answer_said(struct vg_opencl_program *program, enum vg_opencl_answer answer, const char *said)
{
    vg_guest_auto char *quoted = vg_guest_quote(said, VG_OPENCL_SAID_MAX);

    program->answer = answer;
    vg_guest_put(program->why, sizeof program->why, *said ? "it says %s" : "it gave no reason",
                 quoted);
}

static void link_take_said(struct vg_opencl_program *program, const char *line);

static void
link_take_resumed(struct vg_opencl_program *program, const char *rest)
{
    int64_t now_us = vg_guest_now_us(), us;

    link_answer(program, VG_OPENCL_YES, "");
    program->state = VG_OPENCL_RUNNING;
    if (program->stopped_us >= 0)
        program->stop_us = now_us - program->stopped_us;
    /* The duration according to the program, if it is plausible. */
    if (sscanf(rest, "%*d %" SCNd64, &us) == 1 && program->told_us >= 0 && us >= 0)
        program->return_us = us < now_us - program->told_us ? us : now_us - program->told_us;
}

/* Handles the result of `move`, whatever the program has answered in between. Returns whether it is
 * one.
 */
static bool
link_take_moved(struct vg_opencl_program *program, const char *line)
{
    const char *rest;

    if (!program->is_moving)
        return false;
    if (vg_opencl_after(line, "moved")) {
        link_answer(program, VG_OPENCL_YES, "");
        vg_guest_put(program->place, sizeof program->place, "%s", program->move_to);
    } else if ((rest = vg_opencl_after(line, "stayed")) ||
               (rest = vg_opencl_after(line, "waits")) || (rest = vg_opencl_after(line, "busy"))) {
        link_answer(program, VG_OPENCL_NO,
                    vg_opencl_after(line, "busy") ? "it has not answered the previous request"
                                                  : rest);
    } else {
        /* Intermediate answers do not answer `move`. */
        const enum vg_opencl_answer answer = program->answer;
        program->is_moving = false;
        link_take_said(program, line);
        program->is_moving = true;
        program->answer = answer;
        return true;
    }
    program->is_moving = false;
    program->is_away = *program->place && program->state == VG_OPENCL_RUNNING;
    return true;
}

/* Handles a program's answer. docs/vgpud-guest.7 describes the lines. */
static void
link_take_said(struct vg_opencl_program *program, const char *line)
{
    const char *rest;
    char state[16];
    int64_t bytes;
    int at = 0;

    if (link_take_moved(program, line))
        return;
    if ((rest = vg_opencl_after(line, "is")) &&
        sscanf(rest, "%15s %" SCNd64 "%n", state, &bytes, &at) == 2 && at > 0) {
        program->bytes = bytes >= 0 && bytes < VG_OPENCL_BYTES_MAX ? bytes : VG_OPENCL_BYTES_MAX;
        program->is_remote = program->is_remote || strcmp(state, "remote") == 0;
        if (strcmp(state, "unreleasable") == 0)
            link_answer_said(program, VG_OPENCL_NO, rest[at] == ' ' ? rest + at + 1 : "");
        else
            link_answer(program, VG_OPENCL_YES, "");
    } else if (vg_opencl_after(line, "released")) {
        link_answer(program, VG_OPENCL_YES, "");
        program->state = VG_OPENCL_RELEASED;
        program->is_away = false;
        program->release_us = vg_guest_now_us() - program->stopped_us;
    } else if ((rest = vg_opencl_after(line, "refused"))) {
        link_answer_said(program, VG_OPENCL_NO, rest);
        program->state = VG_OPENCL_RUNNING;
    } else if ((rest = vg_opencl_after(line, "lost"))) {
        link_answer_said(program, VG_OPENCL_LOST, rest);
        program->state = VG_OPENCL_RELEASED;
    } else if ((rest = vg_opencl_after(line, "resumed"))) {
        link_take_resumed(program, rest);
    } else if ((rest = vg_opencl_after(line, "failed"))) {
        link_answer_said(program, VG_OPENCL_NO, rest);
        program->state = VG_OPENCL_RELEASED;
        program->is_away = false;
    } else if ((rest = vg_opencl_after(line, "late"))) {
        link_answer_said(program, program->answer, rest);
    } else if (vg_opencl_after(line, "busy")) {
        link_answer(program, VG_OPENCL_NO, "it has not answered the previous request");
    } else if ((rest = vg_opencl_after(line, "error"))) {
        link_answer_said(program, VG_OPENCL_NO, rest);
    }
}

/* Handles a message. Returns whether it ends the list. */
static bool
link_take(struct vg_opencl_link *link, char *message)
{
    char *rest = message;
    bool all = false;

    for (char *line; (line = strsep(&rest, "\n"));) {
        uint32_t number;
        int at = 0;
        struct vg_opencl_program *program;
        if (strcmp(line, "all") == 0) {
            all = true;
        } else if (strncmp(line, "program ", strlen("program ")) == 0) {
            link_add(link, line);
        } else if (sscanf(line, "seen %" SCNu32, &number) == 1) {
            if ((program = link_find(link, number)))
                program->is_seen = true;
        } else if (sscanf(line, "gone %" SCNu32, &number) == 1) {
            if ((program = link_find(link, number)))
                program->state = VG_OPENCL_GONE;
        } else if (sscanf(line, "said %" SCNu32 " %n", &number, &at) == 1 && at > 0) {
            if ((program = link_find(link, number)))
                link_take_said(program, line + at);
        }
    }
    return all;
}

/* Reads one message. Returns 1 after the last one of the list, 0 after another one, -1 at the
 * end. */
static int
link_read(struct vg_opencl_link *link)
{
    ssize_t got = recv(link->fd, link->message, sizeof link->message - 1, MSG_DONTWAIT);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (got <= 0)
        return -1;
    link->message[got] = '\0';
    return link_take(link, link->message) ? 1 : 0;
}

int
vg_opencl_link_open(struct vg_opencl_link *link, const char *root, bool is_hand)
{
    int64_t until_ms = vg_guest_now_ms() + LIST_MS;
    int result = 0;

    *link = (struct vg_opencl_link){
        .root = root, .fd = vg_guest_socket_connect(root, VG_OPENCL_HUB_SOCKET, SOCK_SEQPACKET)};
    if (link->fd >= 0 && is_hand)
        send(link->fd, "hand", strlen("hand"), MSG_NOSIGNAL);
    while (link->fd >= 0 && result == 0 && vg_guest_now_ms() < until_ms) {
        struct pollfd poll_fd = {.fd = link->fd, .events = POLLIN};
        poll(&poll_fd, 1, (int)(until_ms - vg_guest_now_ms()));
        result = link_read(link);
    }
    if (result == 1)
        return 0;
    vg_opencl_link_close(link);
    return -1;
}

void
vg_opencl_link_close(struct vg_opencl_link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
}

/* If the agent has ended, waiting for the answer detects it. */
static void
link_send(const struct vg_opencl_link *link, const char *text)
{
    if (send(link->fd, text, strlen(text), MSG_NOSIGNAL) < 0 && errno == EAGAIN) {
        struct pollfd poll_fd = {.fd = link->fd, .events = POLLOUT};
        poll(&poll_fd, 1, FULL_MS);
        send(link->fd, text, strlen(text), MSG_NOSIGNAL);
    }
}

void
vg_opencl_link_send(struct vg_opencl_link *link, struct vg_opencl_program *program,
                    const char *line)
{
    char text[VG_OPENCL_LINE_MAX];

    vg_guest_put(text, sizeof text, "tell %" PRIu32 " %s", program->number, line);
    if (strcmp(line, "abort") == 0) {
        link_send(link, text);
        return;
    }
    program->answer = VG_OPENCL_SILENT;
    program->why[0] = '\0';
    program->told_us = vg_guest_now_us();
    const char *place = vg_opencl_after(line, "resume");
    program->is_away = place ? *place != '\0' : program->is_away;
    if (place)
        vg_guest_put(program->place, sizeof program->place, "%s", *place ? place + 3 : "");
    program->is_moving = vg_opencl_after(line, "move") != NULL;
    if (program->is_moving || strncmp(line, "prepare", strlen("prepare")) == 0) {
        program->stopped_us =
            program->state == VG_OPENCL_RELEASED ? program->stopped_us : program->told_us;
        program->state = VG_OPENCL_STOPPING;
        program->return_us = program->stop_us = -1;
    }
    link_send(link, text);
}

void
vg_opencl_link_saw(struct vg_opencl_link *link, struct vg_opencl_program *program)
{
    char text[32];

    if (program->is_seen)
        return;
    program->is_seen = true;
    vg_guest_put(text, sizeof text, "seen %" PRIu32, program->number);
    link_send(link, text);
}

int
vg_opencl_link_wait(struct vg_opencl_link *link, int64_t until_ms)
{
    struct pollfd poll_fd = {.fd = link->fd, .events = POLLIN};

    vg_guest_child_wait(&poll_fd, 1, until_ms);
    return link_read(link) < 0 ? -1 : 0;
}

size_t
vg_opencl_link_silent(const struct vg_opencl_link *link)
{
    size_t n = 0;

    for (size_t i = 0; i < link->n; i++)
        n += link->programs[i].is_wanted && link->programs[i].state != VG_OPENCL_GONE &&
                     link->programs[i].answer == VG_OPENCL_SILENT
                 ? 1
                 : 0;
    return n;
}

bool
vg_opencl_link_has(const struct vg_opencl_link *link, pid_t pid)
{
    for (size_t i = 0; i < link->n; i++) {
        if (link->programs[i].pid == pid && link->programs[i].state != VG_OPENCL_GONE)
            return true;
    }
    return false;
}
