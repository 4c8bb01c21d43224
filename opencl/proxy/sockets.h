/* SPDX-License-Identifier: Apache-2.0
 *
 * The proxy's sockets and the VMs that they belong to. Some come from the command line, others
 * from a folder that is reread while the proxy runs. Used by one thread.
 */
#ifndef VG_OPENCL_PROXY_SOCKETS_H
#define VG_OPENCL_PROXY_SOCKETS_H

#include <stdbool.h>
#include <sys/types.h>

#include "opencl/proxy/share.h"
#include "opencl/wire/tls.h"

#define PROXY_TENANTS_MAX 256

struct proxy_sockets {
    struct proxy_tenant *tenants; /* PROXY_TENANTS_MAX places; a closed socket's place is free */
    unsigned n;                   /* number of places ever used */
    uint64_t n_serials;           /* number of serials ever assigned */
    uint64_t memory;              /* default per client */
    unsigned clients_max;         /* default per socket */
    mode_t mode;                  /* permissions of unix sockets */
    const char *folder;           /* NULL if not configured */
    const struct vg_wire_tls_files *tls; /* certificate and key for TLS sockets */
    int64_t
        retry; /* by vg_cl_now(): time to retry sockets that could not listen; INT64_MAX if none */
};

/* Allocates the table. Returns false with errno on failure. */
bool vg_sockets_open(struct proxy_sockets *sockets);

/* Adds a socket from the command line. The caller still owns TEXT. Returns false after a message.
 */
bool vg_sockets_add(struct proxy_sockets *sockets, char *text);

/* Listens at all sockets of the command line. Returns NULL, or the path of one that failed, with
 * errno. */
const char *vg_sockets_listen(struct proxy_sockets *sockets);

/* Rereads the files NAME.conf of the folder, which have one socket per line. Starts to listen at
 * new sockets, now or as soon as possible. Closes removed sockets and ends their clients. If a
 * file has an error, changes nothing and returns false after logging a message. */
bool vg_sockets_read(struct proxy_sockets *sockets, const struct proxy_share *share);

/* Retries sockets that could not listen, if due. Returns the ms until the next call is due, or -1
 * if none is. */
int vg_sockets_look(struct proxy_sockets *sockets);

/* Stops listening at all sockets. */
void vg_sockets_close(struct proxy_sockets *sockets);

/* Returns the default maximum of clients per socket: a quarter of the total, so that one VM cannot
 * lock out the others, but not less than a minimum. */
unsigned vg_sockets_usual_clients(unsigned clients_max);

/* Logs each socket's use of the device. */
void vg_sockets_report(const struct proxy_sockets *sockets, const struct proxy_share *share);

/* Frees what vg_sockets_open() and vg_sockets_read() allocated. */
void vg_sockets_free(struct proxy_sockets *sockets);

/* Called in a client's process: closes and forgets the sockets inherited from the proxy. MINE is
 * the socket that the client came through, or NULL in a process without a client. */
void vg_sockets_leave(const struct proxy_sockets *sockets, const struct proxy_tenant *mine);

#endif
