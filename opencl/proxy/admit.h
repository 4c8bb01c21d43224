/* SPDX-License-Identifier: Apache-2.0
 *
 * Whom the proxy takes. Connections wait here until they have shown who they are; none of them has
 * a process, or one of the places of clients. What comes by one socket takes nothing from others:
 * each socket has places of its own here, and its own rates of connections, processes and lines of
 * the log. Used by one thread, which waits for nobody.
 */
#ifndef VG_OPENCL_PROXY_ADMIT_H
#define VG_OPENCL_PROXY_ADMIT_H

#include <poll.h>

#include "opencl/proxy/share.h"
#include "opencl/wire/arrival.h"

#define PROXY_ARRIVALS_MAX    256 /* connections that wait, of all sockets */
#define PROXY_ARRIVALS_SOCKET 16  /* of one */
#define PROXY_ARRIVAL_S       10  /* for which they may */

struct proxy_arrival {
    int fd; /* -1: none */
    struct proxy_tenant *tenant;
    uint64_t serial; /* of the tenant when it came: the place may be another socket's by now */
    char *known_as;  /* owned: the VM whose certificate it has shown; NULL: none */
    int64_t since;   /* by vg_cl_now() */
    bool is_whole;   /* it has said all, and waits to be begun */
    char from[PROXY_FROM_MAX];
    struct vg_wire_arrival said;
};

struct proxy_arrivals {
    struct proxy_arrival of[PROXY_ARRIVALS_MAX];
    unsigned n; /* that are there */
};

void vg_arrivals_open(struct proxy_arrivals *arrivals);

/* Takes a connection, FD, which is the pool's from now on. KNOWN_AS, which may be NULL, is the VM
 * whose certificate it has shown. Where there are too many, the one that came first goes. */
void vg_arrival_begin(struct proxy_arrivals *arrivals, struct proxy_tenant *tenant, int fd,
                      const char *from, const char *known_as);

/* What is to be polled, PROXY_ARRIVALS_MAX of them, or none. Returns how many. */
unsigned vg_arrivals_poll(const struct proxy_arrivals *arrivals, struct pollfd *at);

/* Hears the connection in a place, if it has EVENTS. True: it may be served by what is configured
 * now. It stays until vg_arrival_end(). */
bool vg_arrival_hear(struct proxy_arrivals *arrivals, unsigned place, short events);

/* Whether it has shown a certificate of the VM that is configured now. */
bool vg_arrival_is_known(const struct proxy_arrival *arrival);

/* Frees the place, and closes what it still has. */
void vg_arrival_end(struct proxy_arrivals *arrivals, struct proxy_arrival *arrival);

/* Drops those that have said nothing for too long, or whose socket is closed. Returns for how many
 * ms there is nothing to do; -1: for ever. */
int vg_arrivals_look(struct proxy_arrivals *arrivals);

/* Nobody can come any more. */
void vg_arrivals_close(struct proxy_arrivals *arrivals);

/* Closes and forgets what a client's process has of them. */
void vg_arrivals_leave(struct proxy_arrivals *arrivals);

/* ---- rates ---- */

/* Whether TENANT's next connection may be accepted now; and counts it. What may not stays with the
 * kernel. */
bool vg_admit_may_accept(const struct proxy_tenant *tenant);
void vg_admit_accepted(struct proxy_tenant *tenant);

/* Whether a process may be begun for TENANT now; counts it if so. */
bool vg_admit_may_fork(struct proxy_tenant *tenant);

#define PROXY_PAUSE_MS 50 /* after which it is tried again */

/* Says it in the log, unless TENANT's socket has had too many lines lately. */
void vg_admit_say(struct proxy_tenant *tenant, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Says that one who came by the socket is refused: to it by FD, unless that is -1, in the log, and
 * to who asks. TO_IT is for its user, and what follows for the proxy's. */
void vg_admit_refuse(struct proxy_tenant *tenant, int fd, const char *to_it, const char *format,
                     ...) __attribute__((format(printf, 4, 5)));

#endif
