/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/wire/link.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

/* As much on its way as large data need for both sides to be busy. */
static void
link_widen(int fd)
{
    const int bytes = 1 << 20;

    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

/* 0: there is no limit. */
static void
link_limit(int fd, int seconds)
{
    const struct timeval limit = {.tv_sec = seconds};

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

void
vg_wire_link_stay(struct vg_wire_link *link)
{
    link_limit(link->fd, 0);
}

bool
vg_wire_link_open(struct vg_wire_link *link, const char *address)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};

    link->fd = -1;
    if (strlen(address) >= sizeof to.sun_path) {
        errno = ENAMETOOLONG;
        return false;
    }
    strcpy(to.sun_path, address);
    link->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (link->fd < 0)
        return false;
    link_widen(link->fd);
    link_limit(link->fd, VG_WIRE_OPEN_S);
    if (connect(link->fd, (struct sockaddr *)&to, sizeof to) == 0)
        return true;
    int error = errno;
    vg_wire_link_close(link);
    errno = error;
    return false;
}

void
vg_wire_link_take(struct vg_wire_link *link, int fd)
{
    link->fd = fd;
    link_widen(fd);
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
}

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
    ssize_t sent = send(link->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);

    (void)sent;
}

bool
vg_wire_link_receive(struct vg_wire_link *link, void *to, size_t size)
{
    char *at = to;

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

    return poll(&at, 1, timeout_ms) > 0;
}
