/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/desk.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "opencl/base/clock.h"
#include "opencl/base/say.h"
#include "opencl/proxy/desk-tell.h"
#include "opencl/proxy/listen.h"
#include "opencl/proxy/peer.h"

/* Who asks less often than this is not counted for. */
#define DESK_WANTED INT64_C(10000000000) /* ns */

#define DESK_NO_SOCKET "error not-found: there is no such socket"

/* ---- the connections ---- */

bool
vg_desk_open(struct proxy_desk *desk)
{
    for (unsigned i = 0; i < PROXY_DESK_FDS; i++)
        desk->fds[i] = -1;
    if (!desk->path)
        return true;
    desk->marks = vg_desk_new_marks();
    desk->room = calloc(1, sizeof *desk->room);
    if (desk->room)
        *desk->room = (struct proxy_room){.share = desk->share, .look = desk->look};
    desk->fds[0] =
        desk->marks && desk->room ? vg_proxy_listen(desk->path, SOCK_SEQPACKET, desk->mode) : -1;
    return desk->fds[0] >= 0;
}

void
vg_desk_leave(const struct proxy_desk *desk)
{
    for (unsigned i = 0; i < PROXY_DESK_FDS; i++)
        if (desk->fds[i] >= 0)
            close(desk->fds[i]);
}

void
vg_desk_close(struct proxy_desk *desk)
{
    vg_desk_leave(desk);
    if (desk->path)
        unlink(desk->path);
    free(desk->marks);
    free(desk->room);
    desk->marks = NULL;
    desk->room = NULL;
}

static void
desk_end(struct proxy_desk *desk, unsigned i)
{
    close(desk->fds[i]);
    desk->fds[i] = -1;
}

/* One who comes while all places are taken gets that of the one who came first. */
static void
desk_accept(struct proxy_desk *desk)
{
    int fd = accept4(desk->fds[0], NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    unsigned i = 1;

    if (fd < 0)
        return;
    if (vg_peer_is_own(fd, vg_proxy_client_uid(desk->confinement))) {
        vg_cl_say("%s: one who is, or may be, a client's process is refused", desk->path);
        close(fd);
        return;
    }
    while (i < PROXY_DESK_FDS && desk->fds[i] >= 0)
        i++;
    if (i == PROXY_DESK_FDS) {
        close(desk->fds[1]);
        memmove(&desk->fds[1], &desk->fds[2], (PROXY_DESK_FDS - 2) * sizeof *desk->fds);
        i--;
    }
    desk->fds[i] = fd;
}

/* FILE goes along, unless it is -1. */
static void
desk_answer(struct proxy_desk *desk, unsigned i, const char *text, int file)
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
    if (sendmsg(desk->fds[i], &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        desk_end(desk, i);
}

/* ---- what is asked ---- */

static struct proxy_tenant *
desk_find(const struct proxy_desk *desk, const char *path)
{
    for (unsigned i = 0; i < desk->n_tenants; i++)
        if (!desk->tenants[i].is_gone && strcmp(desk->tenants[i].path, path) == 0)
            return &desk->tenants[i];
    return NULL;
}

static const char *
desk_set_weight(const struct proxy_desk *desk, const char *text)
{
    char *end;
    unsigned long weight = strtoul(text, &end, 10);

    if (end == text || *end != ' ' || weight < 1 || weight > PROXY_WEIGHT_MAX)
        return "error invalid: a weight is a number from 1 to 1000";
    struct proxy_tenant *tenant = desk_find(desk, end + 1);
    if (!tenant)
        return DESK_NO_SOCKET;
    vg_share_set_weight(desk->share, tenant, (unsigned)weight);
    return "ok";
}

/* Reads a number up to MOST and the space after it, and leaves *TEXT behind both. */
static bool
desk_read_number(const char **text, uint64_t most, uint64_t *number)
{
    char *end;

    errno = 0;
    *number = strtoull(*text, &end, 10);
    if (!isdigit((unsigned char)**text) || errno || *end != ' ' || *number < 1 || *number > most)
        return false;
    *text = end + 1;
    return true;
}

/* TEXT is "ID SECONDS MIB SOCKET". Sets ANSWER, of SIZE bytes, where it is no constant. */
static const char *
desk_reserve(const struct proxy_desk *desk, const char *text, char *answer, size_t size)
{
    struct proxy_room_kept wanted = {.since = vg_cl_now()};
    const size_t length = strcspn(text, " ");
    uint64_t seconds, mib;

    if (length == 0 || length >= sizeof wanted.id || text[length] != ' ')
        return "error invalid: an id has 1 to 63 bytes, and no space";
    memcpy(wanted.id, text, length);
    text += length + 1;
    if (!desk_read_number(&text, PROXY_ROOM_S_MAX, &seconds) ||
        !desk_read_number(&text, PROXY_ROOM_MIB_MAX, &mib))
        return "error invalid: it is 'reserve ID SECONDS MIB SOCKET', of up to 86400 s";
    if (!desk_find(desk, text))
        return DESK_NO_SOCKET;
    snprintf(wanted.path, sizeof wanted.path, "%s", text);
    wanted.bytes = mib << 20;
    wanted.until = wanted.since + (int64_t)seconds * 1000000000;
    const char *why = vg_room_reserve(desk->room, &wanted, answer, size);
    return why ? why : "ok";
}

/* FILE is one of vg_desk_list() or vg_desk_show(). */
static void
desk_answer_file(struct proxy_desk *desk, unsigned i, int file)
{
    desk->asked = vg_cl_now();
    desk_answer(desk, i, file >= 0 ? "ok" : "error failed: there is no memory", file);
    if (file >= 0)
        close(file);
}

static void
desk_do(struct proxy_desk *desk, unsigned i, const char *line)
{
    static const char weight[] = "weight ", show[] = "show ";
    static const char reserve[] = "reserve ", release[] = "release ";
    char text[256];

    if (strcmp(line, "list") == 0) {
        vg_look_want(desk->look);
        desk_answer_file(desk, i, vg_desk_list(desk));
    } else if (strncmp(line, show, sizeof show - 1) == 0) {
        const struct proxy_tenant *tenant = desk_find(desk, line + sizeof show - 1);
        if (tenant)
            desk_answer_file(desk, i, vg_desk_show(desk, tenant));
        else
            desk_answer(desk, i, DESK_NO_SOCKET, -1);
    } else if (strncmp(line, weight, sizeof weight - 1) == 0) {
        desk_answer(desk, i, desk_set_weight(desk, line + sizeof weight - 1), -1);
    } else if (strncmp(line, reserve, sizeof reserve - 1) == 0) {
        const char *wanted = line + sizeof reserve - 1;
        desk_answer(desk, i, desk_reserve(desk, wanted, text, sizeof text), -1);
    } else if (strncmp(line, release, sizeof release - 1) == 0) {
        const bool ok = vg_room_release(desk->room, line + sizeof release - 1);
        desk_answer(desk, i, ok ? "ok" : "error not-found: there is no such reservation", -1);
    } else {
        desk_answer(desk, i,
                    "error unknown: commands are 'list', 'show SOCKET', 'weight NUMBER SOCKET', "
                    "'reserve ID SECONDS MIB SOCKET' and 'release ID'",
                    -1);
    }
}

void
vg_desk_poll(const struct proxy_desk *desk, struct pollfd *at)
{
    for (unsigned i = 0; i < PROXY_DESK_FDS; i++)
        at[i] = (struct pollfd){.fd = desk->fds[i], .events = POLLIN};
}

void
vg_desk_serve(struct proxy_desk *desk, const struct pollfd *at)
{
    char line[PROXY_ROOM_PATH_MAX];

    for (unsigned i = 1; i < PROXY_DESK_FDS; i++) {
        if (!at[i].revents)
            continue;
        ssize_t n = recv(desk->fds[i], line, sizeof line - 1, MSG_DONTWAIT | MSG_TRUNC);
        if (n <= 0 || (size_t)n >= sizeof line) {
            desk_end(desk, i);
            continue;
        }
        line[n] = '\0';
        line[strcspn(line, "\n")] = '\0';
        desk_do(desk, i, line);
    }
    if (at[0].revents)
        desk_accept(desk);
}

int
vg_desk_look(struct proxy_desk *desk)
{
    int64_t left = desk->asked ? desk->asked + DESK_WANTED - vg_cl_now() : 0;

    if (left <= 0)
        desk->asked = 0;
    for (unsigned i = 0; i < desk->share->n_clients; i++)
        if (desk->share->clients[i].counts)
            desk->share->clients[i].counts->is_wanted = left > 0;
    return left > 0 ? (int)(left / 1000000) + 1 : -1;
}
