/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS acceptors: processes between TLS connections and clients' processes. Each performs the
 * handshake of one connection, identifies the client, and then relays the data. Only these
 * processes have the proxy's key. They load no vendor's library, and the proxy never waits for
 * them. Used by one thread.
 */
#ifndef VG_OPENCL_PROXY_ACCEPTOR_H
#define VG_OPENCL_PROXY_ACCEPTOR_H

#include <poll.h>

#include "opencl/proxy/confine.h"
#include "opencl/proxy/share.h"
#include "opencl/wire/tls.h"

#define PROXY_ACCEPTORS_MAX    64 /* concurrent handshakes */
#define PROXY_ACCEPTORS_SOCKET 16 /* concurrent handshakes per socket */
#define PROXY_SHAKE_S          10 /* limit for a handshake */

/* A process during the handshake. Afterwards it continues without the proxy. */
struct proxy_acceptor {
    pid_t pid; /* 0 if the place is free */
    int said;  /* where it reports the result */
    int plain; /* carries the decrypted data from the client */
    struct proxy_tenant *tenant;
    uint64_t serial;   /* of the tenant at that time */
    uint64_t revision; /* of the configuration at the last check */
    bool is_known;     /* the client has shown a certificate of the socket's VM */
    int64_t since;
    char from[PROXY_FROM_MAX];
};

struct proxy_acceptors {
    struct proxy_acceptor of[PROXY_ACCEPTORS_MAX];
    const struct vg_wire_tls_files *tls; /* the proxy's certificate and the CA for clients */
    const struct proxy_confinement *confinement;
};

void vg_acceptors_open(struct proxy_acceptors *acceptors);

/* Checks in a separate process that the files can be used. Returns false after logging a
 * message. */
bool vg_acceptor_check(const struct vg_wire_tls_files *tls);

/* Starts a process that performs the handshake over FD, which it takes over. The process first
 * calls LEAVE with DATA. If the limit for all sockets or for this socket is reached, the oldest
 * handshake is aborted. */
void vg_acceptor_start(struct proxy_acceptors *acceptors, struct proxy_tenant *tenant, int fd,
                       const char *from, void (*leave)(void *data), void *data);

/* Fills in PROXY_ACCEPTORS_MAX descriptors to poll. */
void vg_acceptors_poll(const struct proxy_acceptors *acceptors, struct pollfd *at);

/* Reads what the process in a place reports; its last report frees the place. Returns true if the
 * handshake is complete and the current configuration admits the client; *DONE then has the
 * details, and the caller owns its PLAIN. */
bool vg_acceptor_receive(struct proxy_acceptors *acceptors, unsigned place,
                         struct proxy_acceptor *done);

/* Called in another process: closes the descriptors inherited from the proxy. */
void vg_acceptors_leave(const struct proxy_acceptors *acceptors);

#endif
