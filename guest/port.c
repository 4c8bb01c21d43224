/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/port.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "guest/util.h"

static int
port_listen(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    mode_t mask = umask(0177);

    if (strlen(path) >= sizeof address.sun_path)
        errno = ENAMETOOLONG;
    else if (fd >= 0) {
        vg_guest_put(address.sun_path, sizeof address.sun_path, "%s", path);
        unlink(path);
        if (bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 8) == 0) {
            umask(mask);
            return fd;
        }
    }
    vg_guest_log(LOG_ERR, "cannot listen socket='%s' error='%s'", path, strerror(errno));
    umask(mask);
    if (fd >= 0)
        close(fd);
    return -1;
}

int
vg_guest_port_init(struct vg_guest_port *port, const struct vg_guest_config *config)
{
    *port = (struct vg_guest_port){.config = config,
                                   .listen_fd = -1,
                                   .fd = -1,
                                   .wake_fd = -1,
                                   .pause_ms = VG_GUEST_PAUSE_MS_MIN};
    port->pending = vg_guest_alloc(VG_GUEST_PENDING_MAX);
    if (config->listen)
        port->listen_fd = port_listen(config->listen);
    return config->listen && port->listen_fd < 0 ? -1 : 0;
}

static void
port_wait(struct vg_guest_port *port)
{
    port->retry_ms = vg_guest_now_ms() + port->pause_ms;
    port->pause_ms =
        port->pause_ms * 2 < VG_GUEST_PAUSE_MS_MAX ? port->pause_ms * 2 : VG_GUEST_PAUSE_MS_MAX;
}

static void
port_close(struct vg_guest_port *port)
{
    if (port->fd >= 0)
        close(port->fd);
    if (port->wake_fd >= 0)
        close(port->wake_fd);
    port->fd = port->wake_fd = -1;
    port->pending_size = 0;
    port->silent = port->unsure = false;
    port->sure_ms = 0;
}

void
vg_guest_port_clear(struct vg_guest_port *port)
{
    port_close(port);
    if (port->listen_fd >= 0) {
        close(port->listen_fd);
        unlink(port->config->listen);
    }
    free(port->pending);
}

/* Wakes the agent when a host connects. If that is impossible, the agent polls the port
 * periodically. */
static void
port_watch(struct vg_guest_port *port)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};

    port->wake_fd = epoll_create1(EPOLL_CLOEXEC);
    if (port->wake_fd >= 0 && epoll_ctl(port->wake_fd, EPOLL_CTL_ADD, port->fd, &event) == 0)
        return;
    if (port->wake_fd >= 0)
        close(port->wake_fd);
    port->wake_fd = -1;
}

void
vg_guest_port_open(struct vg_guest_port *port)
{
    if (port->fd >= 0)
        return;
    if (port->listen_fd >= 0) {
        port->fd = accept4(port->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        return;
    }
    if (vg_guest_now_ms() < port->retry_ms)
        return;
    port->fd = open(port->config->port, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (port->fd >= 0) {
        vg_guest_log(LOG_NOTICE, "opened port='%s'", port->config->port);
        port_watch(port);
        port->pause_ms = VG_GUEST_PAUSE_MS_MIN;
        port->told = false;
        return;
    }
    if (!port->told)
        vg_guest_log(LOG_WARNING, "cannot open port='%s' error='%s', trying again%s",
                     port->config->port, strerror(errno),
                     errno == ENOENT  ? "; does the VM have a channel of this name?"
                     : errno == EBUSY ? "; has another program opened it?"
                                      : "");
    port->told = true;
    port_wait(port);
}

struct pollfd
vg_guest_port_poll(const struct vg_guest_port *port, int64_t *until_ms)
{
    struct pollfd poll_fd = {.fd = port->fd, .events = 0};
    bool waits = port->silent || port->unsure || (port->fd < 0 && port->listen_fd < 0);

    if (waits) {
        poll_fd = (struct pollfd){.fd = port->wake_fd, .events = POLLIN};
        if (port->retry_ms < *until_ms)
            *until_ms = port->retry_ms;
    } else if (port->fd < 0) {
        poll_fd = (struct pollfd){.fd = port->listen_fd, .events = POLLIN};
    } else {
        if (port->pending_size <= VG_GUEST_PENDING_READ)
            poll_fd.events |= POLLIN;
        if (port->pending_size > 0)
            poll_fd.events |= POLLOUT;
    }
    return poll_fd;
}

/* Returns, after a POLLHUP, whether data came so recently that the kernel may not have detected the
 * host yet. The port is then polled again soon. */
static bool
port_is_unsure(struct vg_guest_port *port)
{
    int64_t now_ms = vg_guest_now_ms();

    port->unsure = port->listen_fd < 0 && now_ms < port->sure_ms;
    if (port->unsure)
        port->retry_ms = now_ms + VG_GUEST_PAUSE_MS_MIN;
    return port->unsure;
}

void
vg_guest_port_polled(struct vg_guest_port *port, short events)
{
    struct epoll_event event;

    if (port->silent || port->unsure) {
        if (events && epoll_wait(port->wake_fd, &event, 1, 0) > 0)
            port->retry_ms = 0;
        return;
    }
    /* While an answer waits to be sent, the agent would not read, and only reading shows whether
     * the host is gone. */
    if (events & (POLLHUP | POLLERR) && !port_is_unsure(port))
        port->pending_size = 0;
}

/* Handles the loss of the host. The virtio port stays open while the host is away, and another host
 * finds it open. */
static int
port_gone(struct vg_guest_port *port)
{
    bool new = !port->silent;

    if (port->listen_fd >= 0) {
        port_close(port);
        return -1;
    }
    port->silent = true;
    port->pending_size = 0;
    if (new)
        port->pause_ms = VG_GUEST_PAUSE_MS_MIN;
    port_wait(port);
    return new ? -1 : 0;
}

int
vg_guest_port_read(struct vg_guest_port *port, char *data, size_t size)
{
    if (port->fd < 0 || ((port->silent || port->unsure) && vg_guest_now_ms() < port->retry_ms))
        return 0;
    port->unsure = false;
    if (port->pending_size > VG_GUEST_PENDING_READ)
        return 0;
    ssize_t got = read(port->fd, data, size);
    if (got == 0)
        return !port->silent && port_is_unsure(port) ? 0 : port_gone(port);
    if (got > 0)
        port->sure_ms = vg_guest_now_ms() + VG_GUEST_UNSURE_MS;
    if (got > 0 || errno == EAGAIN || errno == EINTR) {
        port->silent = false;
        return got > 0 ? (int)got : 0;
    }
    /* The port was unplugged, or the connection broke. */
    if (port->listen_fd < 0)
        vg_guest_log(LOG_WARNING, "lost port='%s' error='%s'", port->config->port, strerror(errno));
    port_close(port);
    port_wait(port);
    return -1;
}

void
vg_guest_port_send(struct vg_guest_port *port, const char *line)
{
    size_t size = strlen(line);

    if (port->fd < 0 || port->silent)
        return;
    if (size + 1 > VG_GUEST_PENDING_MAX - port->pending_size) {
        vg_guest_log(LOG_WARNING, "the host is not reading the port, dropping a message bytes=%zu",
                     size);
        return;
    }
    memcpy(port->pending + port->pending_size, line, size);
    port->pending[port->pending_size + size] = '\n';
    port->pending_size += size + 1;
}

void
vg_guest_port_flush(struct vg_guest_port *port)
{
    if (port->fd < 0 || port->silent || port->pending_size == 0)
        return;
    ssize_t put = port->listen_fd >= 0
                      ? send(port->fd, port->pending, port->pending_size, MSG_NOSIGNAL)
                      : write(port->fd, port->pending, port->pending_size);
    if (put > 0) {
        memmove(port->pending, port->pending + put, port->pending_size - (size_t)put);
        port->pending_size -= (size_t)put;
    } else if (put < 0 && errno != EAGAIN && errno != EINTR) {
        /* The next read shows the state of the port. */
        port->pending_size = 0;
    }
}
