/* SPDX-License-Identifier: Apache-2.0
 *
 * The connection with the host: a virtio port, or for tests a socket that it connects to. It is
 * opened anew whenever that is possible. Belongs to one thread.
 */
#ifndef VG_GUEST_PORT_H
#define VG_GUEST_PORT_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guest/work.h"

/* Reading stops while more than this waits to be written. */
#define VG_GUEST_PENDING_READ 65536
/* What does not fit is dropped. */
#define VG_GUEST_PENDING_MAX (4 << 20)
/* Of one reading. */
#define VG_GUEST_READ_MAX 16384
/* Between two attempts, while there is no port or nobody on the host's side. */
#define VG_GUEST_PAUSE_MS_MIN 20
#define VG_GUEST_PAUSE_MS_MAX 500
/* The kernel learns by another queue than that of the data that a host has gone and another one has
 * come: for so long after data it may say of the new one that it is not there. */
#define VG_GUEST_UNSURE_MS 500

struct vg_guest_port {
    const struct vg_guest_config *config;
    /* -1 without. wake_fd: tells once of each change of fd, where poll() tells without end that
     * nobody is there. */
    int listen_fd, fd, wake_fd;
    /* Nobody is on the host's side of the virtio port: what comes from poll() says nothing. */
    bool silent;
    /* The same, but something has come just now. */
    bool unsure;
    int64_t pause_ms, retry_ms;
    int64_t sure_ms; /* from then on it is believed */
    /* What cannot be opened was told. */
    bool told;
    char *pending;
    size_t pending_size;
};

/* 0, or -1 after a message. */
int vg_guest_port_init(struct vg_guest_port *port, const struct vg_guest_config *config);
void vg_guest_port_clear(struct vg_guest_port *port);

/* Opens it if it is not and the time has come. */
void vg_guest_port_open(struct vg_guest_port *port);

/* What to wait for; *until_ms is brought forward to when to come back. */
struct pollfd vg_guest_port_poll(const struct vg_guest_port *port, int64_t *until_ms);

/* What poll() said of it. */
void vg_guest_port_polled(struct vg_guest_port *port, short events);

/* Bytes read, 0 for none, -1: the host has gone. */
int vg_guest_port_read(struct vg_guest_port *port, char *data, size_t size);

/* Adds a newline. */
void vg_guest_port_send(struct vg_guest_port *port, const char *line);
/* Writes what can be written. */
void vg_guest_port_flush(struct vg_guest_port *port);

#endif
