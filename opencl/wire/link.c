/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/wire/link.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "opencl/wire/address.h"
#include "opencl/wire/link-shared.h"

#define LINK_MAGIC      UINT64_C(0x314B4E4C55504756) /* "VGPULNK1" */
#define LINK_STREAM     "stream:"
#define LINK_TOKEN_PATH "/etc/vgpud/proxy.token"

enum {
    LINK_SOCKET,
    LINK_SHARED,
    LINK_TOKEN, /* a socket; the program's token comes next */
};

/* What both sides send first. */
struct link_hello {
    uint64_t magic;
    uint64_t way;     /* that the program wants, and that it gets */
    uint64_t staging; /* of what is shared; the descriptor comes along */
};

static const char *link_token_path = LINK_TOKEN_PATH;

void
vg_wire_link_stay(struct vg_wire_link *link)
{
    vg_wire_address_limit(link->fd, 0);
    if (link->shared)
        vg_wire_shared_limit(link->shared, -1);
}

/* ---- the beginning ---- */

static bool
link_receive_memory(struct vg_wire_link *link, struct link_hello *hello, int *memory)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {hello, sizeof *hello};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};

    *memory = -1;
    ssize_t n = recvmsg(link->fd, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC);
    const struct cmsghdr *head = n > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
        head->cmsg_len == CMSG_LEN(sizeof *memory))
        memcpy(memory, CMSG_DATA(head), sizeof *memory);
    return n == (ssize_t)sizeof *hello && hello->magic == LINK_MAGIC;
}

void
vg_wire_link_set_token(const char *path)
{
    link_token_path = path;
}

/* The program's side: says what it wants, and takes what it gets. */
static bool
link_ask(struct vg_wire_link *link, uint64_t way)
{
    struct link_hello hello = {LINK_MAGIC, way, 0};
    struct iovec parts[2] = {{&hello, sizeof hello}};
    const char *path = secure_getenv("VGPU_OPENCL_TOKEN");
    char token[VG_WIRE_TOKEN_MAX];
    int memory = -1;

    if (way == LINK_TOKEN) {
        if (!vg_wire_address_token(path ? path : link_token_path, token))
            return false;
        parts[1] = (struct iovec){token, sizeof token};
    }
    if (!vg_wire_link_send(link, parts, 2, NULL, NULL))
        return false;
    bool ok = link_receive_memory(link, &hello, &memory);
    if (ok && way == LINK_SHARED && hello.way == LINK_SHARED)
        link->shared = vg_wire_shared_open(memory, hello.staging);
    if (link->shared)
        vg_wire_shared_limit(link->shared, VG_WIRE_OPEN_S * 1000);
    if (memory >= 0)
        close(memory);
    if (ok && hello.way == (link->shared ? LINK_SHARED : LINK_SOCKET))
        return true;
    errno = way == LINK_TOKEN ? EACCES : EPROTO;
    return false;
}

bool
vg_wire_link_open(struct vg_wire_link *link, const char *address)
{
    bool is_far = vg_wire_address_is_far(address);
    bool is_stream = strncmp(address, LINK_STREAM, strlen(LINK_STREAM)) == 0;

    address += is_stream ? strlen(LINK_STREAM) : 0;
    *link = (struct vg_wire_link){.fd = vg_wire_address_connect(address, VG_WIRE_OPEN_S)};
    if (link->fd < 0)
        return false;
    vg_wire_address_tune(link->fd);
    if (link_ask(link, is_far ? LINK_TOKEN : is_stream ? LINK_SOCKET : LINK_SHARED))
        return true;
    int error = errno;
    vg_wire_link_close(link);
    errno = error;
    return false;
}

static bool
link_send_memory(struct vg_wire_link *link, struct link_hello *hello, int memory)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof memory)];
    } control = {.align = {.cmsg_len = CMSG_LEN(sizeof memory),
                           .cmsg_level = SOL_SOCKET,
                           .cmsg_type = SCM_RIGHTS}};
    struct iovec part = {hello, sizeof *hello};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    if (memory >= 0) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
        memcpy(CMSG_DATA(&control.align), &memory, sizeof memory);
    }
    return sendmsg(link->fd, &message, MSG_NOSIGNAL) == (ssize_t)sizeof *hello;
}

/* Whether the other side has the token that it needs. */
static bool
link_check_token(struct vg_wire_link *link, const char *token)
{
    char shown[VG_WIRE_TOKEN_MAX];
    unsigned char differs = 0;

    if (!vg_wire_link_receive(link, shown, sizeof shown))
        return false;
    for (size_t i = 0; token && i < sizeof shown; i++)
        differs |= (unsigned char)(shown[i] ^ token[i]);
    return !differs;
}

bool
vg_wire_link_take(struct vg_wire_link *link, int fd, size_t staging, const char *token)
{
    struct link_hello hello;
    int memory = -1;

    *link = (struct vg_wire_link){.fd = fd};
    vg_wire_address_tune(fd);
    vg_wire_address_limit(fd, VG_WIRE_OPEN_S);
    bool ok = vg_wire_link_receive(link, &hello, sizeof hello) && hello.magic == LINK_MAGIC &&
              hello.way <= LINK_TOKEN && (!token || hello.way == LINK_TOKEN);
    if (!ok || (hello.way == LINK_TOKEN && !link_check_token(link, token))) {
        errno = ok ? EACCES : EPROTO;
        return false;
    }
    vg_wire_address_limit(fd, 0);
    bool is_shared = hello.way == LINK_SHARED && staging > 0;
    hello = (struct link_hello){LINK_MAGIC, is_shared, is_shared ? staging : 0};
    struct vg_wire_shared *shared = is_shared ? vg_wire_shared_make(staging, &memory) : NULL;
    ok = (!is_shared || shared) && link_send_memory(link, &hello, memory);
    if (memory >= 0)
        close(memory);
    link->shared = shared;
    return ok;
}

void
vg_wire_link_shut(struct vg_wire_link *link)
{
    if (link->fd >= 0)
        shutdown(link->fd, SHUT_RDWR);
}

void
vg_wire_link_close(struct vg_wire_link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
    vg_wire_shared_close(link->shared);
    link->shared = NULL;
}

/* ---- bytes ---- */

/* Waits until more can be sent, and takes what comes meanwhile. */
static bool
link_wait_to_send(struct vg_wire_link *link, void (*help)(void *data), void *data)
{
    struct pollfd at = {.fd = link->fd, .events = (short)(POLLOUT | (help ? POLLIN : 0))};

    if (poll(&at, 1, -1) < 0)
        return errno == EINTR;
    if (help && (at.revents & POLLIN))
        help(data);
    return true;
}

bool
vg_wire_link_send(struct vg_wire_link *link, struct iovec *parts, int n, void (*help)(void *data),
                  void *data)
{
    if (link->shared)
        return vg_wire_shared_send(link->shared, link->fd, parts, n, help, data);
    while (n > 0) {
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)n};
        ssize_t sent = sendmsg(link->fd, &message, MSG_NOSIGNAL | (help ? MSG_DONTWAIT : 0));
        if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            if (!link_wait_to_send(link, help, data))
                return false;
            continue;
        }
        if (sent < 0 && errno != EINTR)
            return false;
        for (size_t left = sent > 0 ? (size_t)sent : 0; n > 0; parts++, n--) {
            if (left < parts->iov_len) {
                parts->iov_base = (char *)parts->iov_base + left;
                parts->iov_len -= left;
                break;
            }
            left -= parts->iov_len;
        }
    }
    return true;
}

void
vg_wire_link_offer(struct vg_wire_link *link, const void *bytes, size_t size)
{
    if (link->shared) {
        vg_wire_shared_offer(link->shared, link->fd, bytes, size);
        return;
    }
    ssize_t sent = send(link->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);

    (void)sent;
}

bool
vg_wire_link_receive(struct vg_wire_link *link, void *to, size_t size)
{
    char *at = to;

    if (link->shared)
        return vg_wire_shared_receive(link->shared, link->fd, to, size);
    while (size > 0) {
        ssize_t n = recv(link->fd, at, size, MSG_WAITALL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

bool
vg_wire_link_wait(const struct vg_wire_link *link, int timeout_ms)
{
    struct pollfd at = {.fd = link->fd, .events = POLLIN};

    if (link->shared)
        return vg_wire_shared_wait(link->shared, link->fd, timeout_ms);
    return poll(&at, 1, timeout_ms) > 0;
}
