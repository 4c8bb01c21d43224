/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that stand before those of clients that come by TLS: each shakes hands with one of
 * them, sees who it is, and then carries what is said. It alone has the proxy's key, and it loads
 * no vendor's library; nobody waits for it. Used by one thread.
 */
#ifndef VG_OPENCL_PROXY_FRONT_H
#define VG_OPENCL_PROXY_FRONT_H

#include <poll.h>

#include "opencl/proxy/confine.h"
#include "opencl/proxy/share.h"
#include "opencl/wire/tls.h"

#define PROXY_FRONTS_MAX    64 /* that shake hands at a time */
#define PROXY_FRONTS_SOCKET 16 /* of one socket */
#define PROXY_SHAKE_S       10 /* for which they may */

/* One that shakes hands; once it has, it goes on by itself. */
struct proxy_front {
    pid_t pid; /* 0: none */
    int said;  /* where it says what came of it */
    int plain; /* where what the client says comes out */
    struct proxy_tenant *tenant;
    uint64_t serial;   /* of the tenant when it came */
    uint64_t revision; /* of what was configured when it was judged last */
    bool is_known;     /* the client has shown a certificate of the socket's VM */
    int64_t since;
    char from[PROXY_FROM_MAX];
};

struct proxy_fronts {
    struct proxy_front of[PROXY_FRONTS_MAX];
    const struct vg_wire_tls_files *tls; /* what the proxy shows, and the CA of clients' */
    const struct proxy_confinement *confinement;
};

void vg_fronts_open(struct proxy_fronts *fronts);

/* Whether the files can be used, which a process of its own finds out. False: after a message. */
bool vg_front_check(const struct vg_wire_tls_files *tls);

/* Has a process, in which LEAVE is called with DATA first, shake hands over FD, which is not the
 * caller's any more. If there are as many as there may be, of all or of this socket, the one that
 * has taken longest ends. */
void vg_front_begin(struct proxy_fronts *fronts, struct proxy_tenant *tenant, int fd,
                    const char *from, void (*leave)(void *data), void *data);

/* What is to be polled, PROXY_FRONTS_MAX of them. */
void vg_fronts_poll(const struct proxy_fronts *fronts, struct pollfd *at);

/* Takes what the one in a place says. The place is free after what it says last. True: *DONE has
 * shaken hands, may come by what is configured now, and PLAIN of it is the caller's. */
bool vg_front_hear(struct proxy_fronts *fronts, unsigned place, struct proxy_front *done);

/* Closes what another process has of them. */
void vg_fronts_leave(const struct proxy_fronts *fronts);

#endif
