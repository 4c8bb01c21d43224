/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the proxy is asked, by a socket of its own (SOCK_SEQPACKET), what its clients did, and told
 * to change a share. A message is a line, and so is its answer:
 *
 *   list                        ok, with a file of JSON (docs/vgpu-proxy.8)
 *   show SOCKET                 the same, of one socket and its clients
 *   weight NUMBER SOCKET        ok
 *   reserve ID SECONDS MIB SOCKET  ok, or  refused REASON (room.h)
 *   release ID                  ok
 *                               or  error CODE: REASON
 *
 * CODE is not-found, invalid, unknown (a line that is none of these), full, unsupported or failed.
 * A proxy of an older version answers without it.
 *
 * Nobody is waited for: an answer that cannot be sent at once ends the connection. One thread.
 */
#ifndef VG_OPENCL_PROXY_DESK_H
#define VG_OPENCL_PROXY_DESK_H

#include <poll.h>

#include "opencl/proxy/confine.h"
#include "opencl/proxy/look.h"
#include "opencl/proxy/room.h"
#include "opencl/proxy/share.h"
#include "opencl/wire/tls.h"

#define PROXY_DESK_FDS 5 /* that are polled: the listener, and who asks */

struct proxy_marks;

struct proxy_desk {
    const char *path; /* NULL: nobody asks */
    mode_t mode;      /* who may */
    int fds[PROXY_DESK_FDS];
    struct proxy_tenant *tenants; /* N_TENANTS of them; those that are gone are not told of */
    unsigned n_tenants;
    const struct proxy_share *share;
    const struct vg_serve_limits *limits; /* of each client, but for memory */
    unsigned clients_max, linger_s;
    size_t staging; /* bytes */
    mode_t socket_mode;
    const struct vg_wire_tls_files *tls;
    const struct proxy_confinement *confinement;
    struct proxy_look *look;   /* devices are looked for once somebody asks */
    struct proxy_marks *marks; /* owned: what sockets had lately; desk-tell.c */
    struct proxy_room *room;   /* owned: what is kept for programs that will come */
    int64_t asked;             /* when, last, by CLOCK_MONOTONIC; 0: not for a while */
};

/* Listens at DESK->path, unless that is NULL. False, with errno. */
bool vg_desk_open(struct proxy_desk *desk);
void vg_desk_close(struct proxy_desk *desk);

/* Closes what a client's process has of it. */
void vg_desk_leave(const struct proxy_desk *desk);

/* What is to be polled, PROXY_DESK_FDS of them, and what came of it. */
void vg_desk_poll(const struct proxy_desk *desk, struct pollfd *at);
void vg_desk_serve(struct proxy_desk *desk, const struct pollfd *at);

/* Has what clients do be counted while somebody asks for it. Returns for how many ms nothing
 * changes; -1: until somebody asks. */
int vg_desk_look(struct proxy_desk *desk);

#endif
