/* SPDX-License-Identifier: Apache-2.0
 *
 * Admission of connections to the proxy. New connections wait here until they have authenticated;
 * until then they have no process and occupy no client slot. Sockets do not affect each other:
 * each has its own places here, and its own rate limits for connections, processes and log lines.
 * Used by one thread, which never blocks on a connection.
 */
#ifndef VG_OPENCL_PROXY_ADMIT_H
#define VG_OPENCL_PROXY_ADMIT_H

#include <poll.h>

#include "opencl/proxy/share.h"
#include "opencl/wire/arrival.h"

#define PROXY_ARRIVALS_MAX    256 /* waiting connections, all sockets together */
#define PROXY_ARRIVALS_SOCKET 16  /* waiting connections per socket */
#define PROXY_ARRIVAL_S       10  /* limit for authentication */

struct proxy_arrival {
    int fd; /* -1 if the place is free */
    struct proxy_tenant *tenant;
    uint64_t serial; /* of the tenant at that time: another socket may have the place by now */
    char *known_as; /* owned: the VM named by the certificate that the connection has shown; NULL if
                       it showed none */
    int64_t since;  /* by vg_cl_now() */
    bool is_whole;  /* everything was received; waiting to be served */
    char from[PROXY_FROM_MAX];
    struct vg_wire_arrival said;
};

struct proxy_arrivals {
    struct proxy_arrival of[PROXY_ARRIVALS_MAX];
    unsigned n; /* places in use */
};

void vg_arrivals_open(struct proxy_arrivals *arrivals);

/* Adds the connection FD and takes ownership of it. KNOWN_AS is the VM whose certificate the
 * connection has shown, or NULL. If there are too many, the oldest is closed. */
void vg_arrival_begin(struct proxy_arrivals *arrivals, struct proxy_tenant *tenant, int fd,
                      const char *from, const char *known_as);

/* Fills in the descriptors to poll, at most PROXY_ARRIVALS_MAX. Returns their number. */
unsigned vg_arrivals_poll(const struct proxy_arrivals *arrivals, struct pollfd *at);

/* Reads from the connection in a place, if it has EVENTS. Returns true if the current
 * configuration admits it. It stays until vg_arrival_end(). */
bool vg_arrival_hear(struct proxy_arrivals *arrivals, unsigned place, short events);

/* Returns whether the connection has shown a certificate of the VM that is configured now. */
bool vg_arrival_is_known(const struct proxy_arrival *arrival);

/* Frees the place and closes what is still open. */
void vg_arrival_end(struct proxy_arrivals *arrivals, struct proxy_arrival *arrival);

/* Drops connections that were idle for too long or whose socket is closed. Returns the ms until
 * the next call is due, or -1 if none is. */
int vg_arrivals_look(struct proxy_arrivals *arrivals);

/* Closes all waiting connections. */
void vg_arrivals_close(struct proxy_arrivals *arrivals);

/* Called in a client's process: closes and forgets all connections inherited from the proxy. */
void vg_arrivals_leave(struct proxy_arrivals *arrivals);

/* ---- rates ---- */

/* The first returns whether TENANT's next connection may be accepted now; the second counts it.
 * Connections that may not be accepted stay in the kernel's queue. */
bool vg_admit_may_accept(const struct proxy_tenant *tenant);
void vg_admit_accepted(struct proxy_tenant *tenant);

/* Returns whether a process may be started for TENANT now, and if so counts it. */
bool vg_admit_may_fork(struct proxy_tenant *tenant);

#define PROXY_PAUSE_MS 50 /* delay before the next try */

/* Logs a message, unless TENANT's socket has logged too many lines lately. */
void vg_admit_say(struct proxy_tenant *tenant, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Reports that a connection is refused: to the connection through FD, unless that is -1, in the
 * log, and to the control socket. TO_IT is meant for the program's user, FORMAT for the proxy's. */
void vg_admit_refuse(struct proxy_tenant *tenant, int fd, const char *to_it, const char *format,
                     ...) __attribute__((format(printf, 4, 5)));

#endif
