/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/proxy/desk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "opencl/proxy/listen.h"
#include "opencl/track/clock.h"

/* Who asks less often than this is not counted for. */
#define DESK_WANTED INT64_C(10000000000) /* ns */

/* ---- the connections ---- */

bool
vg_desk_open(struct proxy_desk *desk)
{
    for (unsigned i = 0; i < PROXY_DESK_FDS; i++)
        desk->fds[i] = -1;
    if (!desk->path)
        return true;
    desk->fds[0] = vg_proxy_listen(desk->path, SOCK_SEQPACKET, desk->mode);
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

/* ---- what is told ---- */

#define DESK_TEXT_MAX   4096 /* bytes */
#define DESK_NUMBER_MAX (UINT64_C(1) << 62)

static void
desk_put_text(FILE *file, const char *name, const char *text, size_t most)
{
    fprintf(file, ",\"%s\":\"", name);
    for (size_t i = 0; i < most && text[i]; i++) {
        if (text[i] == '"' || text[i] == '\\')
            fputc('\\', file);
        fputc((unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i], file);
    }
    fputc('"', file);
}

/* The client's process has written it, whatever that is by now. */
static void
desk_copy_device(char *device, const struct vg_serve_counts *counts)
{
    if (!counts->device[0])
        return;
    memcpy(device, counts->device, sizeof counts->device);
    for (size_t i = 0; i < sizeof counts->device; i++)
        if ((unsigned char)device[i] >= 0x7f)
            device[i] = '?';
}

static uint64_t
desk_number(uint64_t number)
{
    return number > DESK_NUMBER_MAX ? DESK_NUMBER_MAX : number;
}

static void
desk_put_took(FILE *file, const struct proxy_did *did)
{
    bool is_first = true;

    fputs(",\"took\":[", file);
    for (unsigned i = 0; i < VG_SERVE_TOOK; i++) {
        if (!did->took[i])
            continue;
        fprintf(file, "%s{\"ns\":%" PRId64 ",\"commands\":%" PRIu64 "}", is_first ? "" : ",",
                vg_serve_took_middle(i), desk_number(did->took[i]));
        is_first = false;
    }
    fputs("]", file);
}

static void
desk_put_tenant(const struct proxy_desk *desk, const struct proxy_tenant *tenant, FILE *file)
{
    struct proxy_did did = tenant->did;
    char device[sizeof(((struct vg_serve_counts *)NULL)->device)] = "";
    unsigned n = 0;

    for (unsigned i = 0; i < desk->share->n_clients; i++) {
        const struct proxy_client *client = &desk->share->clients[i];
        if (client->tenant != tenant || !client->counts)
            continue;
        vg_share_add_did(&did, client->counts);
        did.used += client->counts->memory;
        desk_copy_device(device, client->counts);
        n++;
    }
    fprintf(
        file,
        "{\"weight\":%u,\"memory_bytes\":%" PRIu64 ",\"used_bytes\":%" PRIu64 ",\"clients\":%u"
        ",\"held_ns\":%" PRId64 ",\"turns\":%" PRIu64 ",\"ended\":%" PRIu64 ",\"commands\":%" PRIu64
        ",\"done\":%" PRIu64 ",\"wait_ns\":%" PRIu64 ",\"run_ns\":%" PRIu64,
        tenant->weight, tenant->memory == UINT64_MAX ? 0 : tenant->memory, desk_number(did.used), n,
        vg_share_held(desk->share, tenant), tenant->turns, tenant->ended, desk_number(did.came),
        desk_number(did.done), desk_number(did.wait_ns), desk_number(did.run_ns));
    desk_put_text(file, "socket", tenant->path, DESK_TEXT_MAX);
    desk_put_text(file, "vm", tenant->vm ? tenant->vm : "", DESK_TEXT_MAX);
    desk_put_text(file, "device", device, sizeof device);
    desk_put_took(file, &did);
    fputs("}", file);
}

/* A file of all that there is; -1, with errno. */
static int
desk_list(const struct proxy_desk *desk)
{
    int fd = memfd_create("vgpu-proxy", MFD_CLOEXEC);
    int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    FILE *file = copy < 0 ? NULL : fdopen(copy, "w");

    if (!file) {
        int error = errno;
        if (copy >= 0)
            close(copy);
        if (fd >= 0)
            close(fd);
        errno = error;
        return -1;
    }
    fprintf(file, "{\"pid\":%d,\"version\":\"" PACKAGE_VERSION "\",\"sockets\":[", (int)getpid());
    for (unsigned i = 0, told = 0; i < desk->n_tenants; i++) {
        if (desk->tenants[i].is_gone)
            continue;
        if (told++ > 0)
            fputc(',', file);
        desk_put_tenant(desk, &desk->tenants[i], file);
    }
    fputs("]}\n", file);
    fclose(file);
    return fd;
}

/* ---- what is asked ---- */

static const char *
desk_set_weight(const struct proxy_desk *desk, const char *text)
{
    char *end;
    unsigned long weight = strtoul(text, &end, 10);

    if (end == text || *end != ' ' || weight < 1 || weight > PROXY_WEIGHT_MAX)
        return "error a weight is a number from 1 to 1000";
    for (unsigned i = 0; i < desk->n_tenants; i++)
        if (!desk->tenants[i].is_gone && strcmp(desk->tenants[i].path, end + 1) == 0) {
            vg_share_set_weight(desk->share, &desk->tenants[i], (unsigned)weight);
            return "ok";
        }
    return "error there is no such socket";
}

static void
desk_do(struct proxy_desk *desk, unsigned i, const char *line)
{
    static const char weight[] = "weight ";

    if (strcmp(line, "list") == 0) {
        int file = desk_list(desk);
        desk->asked = vg_cl_now();
        desk_answer(desk, i, file >= 0 ? "ok" : "error there is no memory", file);
        if (file >= 0)
            close(file);
    } else if (strncmp(line, weight, sizeof weight - 1) == 0) {
        desk_answer(desk, i, desk_set_weight(desk, line + sizeof weight - 1), -1);
    } else {
        desk_answer(desk, i, "error it is asked by 'list' and 'weight NUMBER SOCKET'", -1);
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
    char line[512];

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
