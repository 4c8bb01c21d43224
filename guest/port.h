/* SPDX-License-Identifier: Apache-2.0
 *
 * The connection with the host: a virtio port, or for tests a socket that it connects to. It is
 * opened again whenever that is possible. Belongs to one thread.
 */
#ifndef VG_GUEST_PORT_H
#define VG_GUEST_PORT_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guest/work.h"

/* Reading stops while more than this number of bytes are waiting to be written. */
#define VG_GUEST_PENDING_READ 65536
/* Answers that do not fit into this many bytes are dropped. */
#define VG_GUEST_PENDING_MAX (4 << 20)
/* The maximum number of bytes read by a call. */
#define VG_GUEST_READ_MAX 16384
/* The pause between two attempts, while there is no port or no host on its other side. */
#define VG_GUEST_PAUSE_MS_MIN 20
#define VG_GUEST_PAUSE_MS_MAX 500
/* The kernel learns that a host has disconnected, and that another has connected, through a
 * different queue than the data. For this long after data, it may report the new host as
 * missing. */
#define VG_GUEST_UNSURE_MS 500

struct vg_guest_port {
    const struct vg_guest_config *config;
    /* -1 if not open. wake_fd reports each change of fd once, where poll() would repeatedly report
     * that there is no host. */
    int listen_fd, fd, wake_fd;
    /* There is no host on the other side of the virtio port, so that poll() of it means nothing. */
    bool silent;
    /* The same, but data has just arrived, so that this may be wrong. */
    bool unsure;
    int64_t pause_ms, retry_ms;
    int64_t sure_ms; /* the time after which the host counts as disconnected */
    /* The failure to open the port has been logged. */
    bool told;
    char *pending;
    size_t pending_size;
};

/* Returns 0, or -1 after a message to the log. */
int vg_guest_port_init(struct vg_guest_port *port, const struct vg_guest_config *config);
void vg_guest_port_clear(struct vg_guest_port *port);

/* Opens the port, if it is not open and the time for another attempt has come. */
void vg_guest_port_open(struct vg_guest_port *port);

/* Returns the events that poll() must wait for, and brings *until_ms forward to the next attempt.
 */
struct pollfd vg_guest_port_poll(const struct vg_guest_port *port, int64_t *until_ms);

/* Handles the events that poll() reported. */
void vg_guest_port_polled(struct vg_guest_port *port, short events);

/* Reads bytes. Returns their number, 0 if none are available, or -1 if the host has
 * disconnected. */
int vg_guest_port_read(struct vg_guest_port *port, char *data, size_t size);

/* Queues a line, and adds its newline. */
void vg_guest_port_send(struct vg_guest_port *port, const char *line);
/* Writes as much as the host accepts now. */
void vg_guest_port_flush(struct vg_guest_port *port);

#endif
