/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/control.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "opencl/base/clock.h"
#include "opencl/base/say.h"
#include "opencl/proxy/control-reply.h"
#include "opencl/proxy/listen.h"
#include "opencl/proxy/peer.h"

/* Clients of the control socket that query less often than this do not cause counting. */
#define CONTROL_WANTED INT64_C(10000000000) /* ns */

#define CONTROL_NO_SOCKET "error not-found: there is no such socket"

/* ---- the connections ---- */

bool
vg_control_open(struct proxy_control *control)
{
    for (unsigned i = 0; i < PROXY_CONTROL_FDS; i++)
        control->fds[i] = -1;
    if (!control->path)
        return true;
    control->marks = vg_control_new_marks();
    control->room = calloc(1, sizeof *control->room);
    if (control->room)
        *control->room = (struct proxy_room){.share = control->share, .look = control->look};
    control->fds[0] = control->marks && control->room
                          ? vg_proxy_listen(control->path, SOCK_SEQPACKET, control->mode)
                          : -1;
    return control->fds[0] >= 0;
}

void
vg_control_leave(const struct proxy_control *control)
{
    for (unsigned i = 0; i < PROXY_CONTROL_FDS; i++)
        if (control->fds[i] >= 0)
            close(control->fds[i]);
}

void
vg_control_close(struct proxy_control *control)
{
    vg_control_leave(control);
    if (control->path)
        unlink(control->path);
    free(control->marks);
    free(control->room);
    control->marks = NULL;
    control->room = NULL;
}

static void
control_end(struct proxy_control *control, unsigned i)
{
    close(control->fds[i]);
    control->fds[i] = -1;
}

/* If all places are taken, a new connection gets that of the oldest one. */
static void
control_accept(struct proxy_control *control)
{
    int fd = accept4(control->fds[0], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    unsigned i = 1;

    if (fd < 0)
        return;
    if (vg_peer_is_own(fd, vg_proxy_client_uid(control->confinement))) {
        vg_cl_say("%s: refused a connection that may come from a client's process", control->path);
        close(fd);
        return;
    }
    while (i < PROXY_CONTROL_FDS && control->fds[i] >= 0)
        i++;
    if (i == PROXY_CONTROL_FDS) {
        close(control->fds[1]);
        memmove(&control->fds[1], &control->fds[2], (PROXY_CONTROL_FDS - 2) * sizeof *control->fds);
        i--;
    }
    control->fds[i] = fd;
}

/* Sends a line, with FILE unless it is -1. */
static void
control_answer(struct proxy_control *control, unsigned i, const char *text, int file)
{
    struct iovec part = {(void *)(uintptr_t)text, strlen(text)};
    union {
        char bytes[CMSG_SPACE(sizeof file)];
        struct cmsghdr align;
    } room = {.bytes = ""};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    if (file >= 0) {
        message.msg_control = room.bytes;
        message.msg_controllen = sizeof room.bytes;
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof file);
        memcpy(CMSG_DATA(head), &file, sizeof file);
    }
    if (sendmsg(control->fds[i], &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        control_end(control, i);
}

/* ---- what is asked ---- */

static struct proxy_tenant *
control_find(const struct proxy_control *control, const char *path)
{
    for (unsigned i = 0; i < control->n_tenants; i++)
        if (!control->tenants[i].is_gone && strcmp(control->tenants[i].path, path) == 0)
            return &control->tenants[i];
    return NULL;
}

static const char *
control_set_weight(const struct proxy_control *control, const char *text)
{
    char *end;
    unsigned long weight = strtoul(text, &end, 10);

    if (end == text || *end != ' ' || weight < 1 || weight > PROXY_WEIGHT_MAX)
        return "error invalid: a weight must be a number from 1 to 1000";
    struct proxy_tenant *tenant = control_find(control, end + 1);
    if (!tenant)
        return CONTROL_NO_SOCKET;
    vg_share_set_weight(control->share, tenant, (unsigned)weight);
    return "ok";
}

/* Reads a number up to MOST and the space after it, and advances *TEXT past both. */
static bool
control_read_number(const char **text, uint64_t most, uint64_t *number)
{
    char *end;

    errno = 0;
    *number = strtoull(*text, &end, 10);
    if (!isdigit((unsigned char)**text) || errno || *end != ' ' || *number < 1 || *number > most)
        return false;
    *text = end + 1;
    return true;
}

/* Reserves memory. TEXT is "ID SECONDS MIB SOCKET". If the answer is not a constant, it is written
 * to ANSWER, of SIZE bytes. */
static const char *
control_reserve(const struct proxy_control *control, const char *text, char *answer, size_t size)
{
    struct proxy_room_kept wanted = {.since = vg_cl_now()};
    const size_t length = strcspn(text, " ");
    uint64_t seconds, mib;

    if (length == 0 || length >= sizeof wanted.id || text[length] != ' ')
        return "error invalid: an ID must have 1 to 63 bytes and no spaces";
    memcpy(wanted.id, text, length);
    text += length + 1;
    if (!control_read_number(&text, PROXY_ROOM_S_MAX, &seconds) ||
        !control_read_number(&text, PROXY_ROOM_MIB_MAX, &mib))
        return "error invalid: the syntax is 'reserve ID SECONDS MIB SOCKET', with at most 86400 s";
    if (!control_find(control, text))
        return CONTROL_NO_SOCKET;
    snprintf(wanted.path, sizeof wanted.path, "%s", text);
    wanted.bytes = mib << 20;
    wanted.until = wanted.since + (int64_t)seconds * 1000000000;
    const char *why = vg_room_reserve(control->room, &wanted, answer, size);
    return why ? why : "ok";
}

/* FILE is vg_control_list() or vg_control_show(). */
static void
control_answer_file(struct proxy_control *control, unsigned i, int file)
{
    control->asked = vg_cl_now();
    control_answer(control, i, file >= 0 ? "ok" : "error failed: out of memory", file);
    if (file >= 0)
        close(file);
}

static void
control_do(struct proxy_control *control, unsigned i, const char *line)
{
    static const char weight[] = "weight ", show[] = "show ";
    static const char reserve[] = "reserve ", release[] = "release ";
    char text[256];

    if (strcmp(line, "list") == 0) {
        vg_look_want(control->look);
        control_answer_file(control, i, vg_control_list(control));
    } else if (strncmp(line, show, sizeof show - 1) == 0) {
        const struct proxy_tenant *tenant = control_find(control, line + sizeof show - 1);
        if (tenant)
            control_answer_file(control, i, vg_control_show(control, tenant));
        else
            control_answer(control, i, CONTROL_NO_SOCKET, -1);
    } else if (strncmp(line, weight, sizeof weight - 1) == 0) {
        control_answer(control, i, control_set_weight(control, line + sizeof weight - 1), -1);
    } else if (strncmp(line, reserve, sizeof reserve - 1) == 0) {
        const char *wanted = line + sizeof reserve - 1;
        control_answer(control, i, control_reserve(control, wanted, text, sizeof text), -1);
    } else if (strncmp(line, release, sizeof release - 1) == 0) {
        const bool ok = vg_room_release(control->room, line + sizeof release - 1);
        control_answer(control, i, ok ? "ok" : "error not-found: there is no such reservation", -1);
    } else {
        control_answer(control, i,
                       "error unknown: commands are 'list', 'show SOCKET', 'weight NUMBER SOCKET', "
                       "'reserve ID SECONDS MIB SOCKET' and 'release ID'",
                       -1);
    }
}

void
vg_control_poll(const struct proxy_control *control, struct pollfd *at)
{
    for (unsigned i = 0; i < PROXY_CONTROL_FDS; i++)
        at[i] = (struct pollfd){.fd = control->fds[i], .events = POLLIN};
}

void
vg_control_serve(struct proxy_control *control, const struct pollfd *at)
{
    char line[PROXY_ROOM_PATH_MAX];

    for (unsigned i = 1; i < PROXY_CONTROL_FDS; i++) {
        if (!at[i].revents)
            continue;
        ssize_t n = recv(control->fds[i], line, sizeof line - 1, MSG_DONTWAIT | MSG_TRUNC);
        if (n <= 0 || (size_t)n >= sizeof line) {
            control_end(control, i);
            continue;
        }
        line[n] = '\0';
        line[strcspn(line, "\n")] = '\0';
        control_do(control, i, line);
    }
    if (at[0].revents)
        control_accept(control);
}

int
vg_control_refresh(struct proxy_control *control)
{
    int64_t left = control->asked ? control->asked + CONTROL_WANTED - vg_cl_now() : 0;

    if (left <= 0)
        control->asked = 0;
    for (unsigned i = 0; i < control->share->n_clients; i++)
        if (control->share->clients[i].counts)
            control->share->clients[i].counts->is_wanted = left > 0;
    return left > 0 ? (int)(left / 1000000) + 1 : -1;
}
