/* SPDX-License-Identifier: Apache-2.0
 *
 * The proxy's control socket (SOCK_SEQPACKET). It reports what the clients did and changes shares.
 * Each request is a line, and so is its answer:
 *
 *   list                        ok, with a file of JSON (docs/vgpu-proxy.8)
 *   show SOCKET                 the same, of one socket and its clients
 *   weight NUMBER SOCKET        ok
 *   reserve ID SECONDS MIB SOCKET  ok, or  refused REASON (room.h)
 *   release ID                  ok
 *                               or  error CODE: REASON
 *
 * CODE is not-found, invalid, unknown (an unknown request), full, unsupported or failed. Older
 * proxies answer without it.
 *
 * The proxy never waits for a peer: if an answer cannot be sent immediately, it closes the
 * connection. One thread.
 */
#ifndef VG_OPENCL_PROXY_CONTROL_H
#define VG_OPENCL_PROXY_CONTROL_H

#include <poll.h>

#include "opencl/proxy/confine.h"
#include "opencl/proxy/look.h"
#include "opencl/proxy/room.h"
#include "opencl/proxy/share.h"
#include "opencl/wire/tls.h"

#define PROXY_CONTROL_FDS 5 /* descriptors to poll: the listener and its connections */

struct proxy_marks;

struct proxy_control {
    const char *path; /* NULL if there is no control socket */
    mode_t mode;      /* permissions of the socket */
    int fds[PROXY_CONTROL_FDS];
    struct proxy_tenant *tenants; /* N_TENANTS of them; closed ones are not reported */
    unsigned n_tenants;
    const struct proxy_share *share;
    const struct vg_serve_limits *limits; /* limits of each client, except for memory */
    unsigned clients_max, linger_s;
    size_t staging; /* bytes */
    mode_t socket_mode;
    const struct vg_wire_tls_files *tls;
    const struct proxy_confinement *confinement;
    struct proxy_look *look;   /* devices are queried on the first request */
    struct proxy_marks *marks; /* owned; recent counters of the sockets; control-reply.c */
    struct proxy_room *room;   /* owned; reservations for future programs */
    int64_t asked;             /* time of the last request by CLOCK_MONOTONIC; 0 if long ago */
};

/* Listens at CONTROL->path, unless that is NULL. Returns false with errno on failure. */
bool vg_control_open(struct proxy_control *control);
void vg_control_close(struct proxy_control *control);

/* Called in a client's process: closes the descriptors inherited from the proxy. */
void vg_control_leave(const struct proxy_control *control);

/* Fills in PROXY_CONTROL_FDS descriptors to poll, and handles the results. */
void vg_control_poll(const struct proxy_control *control, struct pollfd *at);
void vg_control_serve(struct proxy_control *control, const struct pollfd *at);

/* Makes clients' activity be counted while requests keep arriving. Returns the ms until something
 * changes, or -1 if only a request can change it. */
int vg_control_refresh(struct proxy_control *control);

#endif
