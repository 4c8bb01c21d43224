/* SPDX-License-Identifier: Apache-2.0
 *
 * The sockets of a proxy, and whose they are: those of the command line, and those of a folder,
 * which are read again while the proxy runs. Used by one thread.
 */
#ifndef VG_OPENCL_PROXY_SOCKETS_H
#define VG_OPENCL_PROXY_SOCKETS_H

#include <stdbool.h>
#include <sys/types.h>

#include "opencl/proxy/share.h"
#include "opencl/wire/tls.h"

#define PROXY_TENANTS_MAX 256

struct proxy_sockets {
    struct proxy_tenant *tenants; /* PROXY_TENANTS_MAX places; those that are gone are free */
    unsigned n;                   /* places that were ever taken */
    uint64_t n_serials;           /* that were ever given */
    uint64_t memory;              /* of each client, where its socket does not say */
    unsigned clients_max;         /* likewise, of each socket */
    mode_t mode;                  /* who may connect to a unix socket */
    const char *folder;           /* NULL: there is none */
    const struct vg_wire_tls_files *tls; /* what is shown at those of TLS */
    int64_t retry; /* by vg_cl_now(), when to listen at those that could not be;
                    * INT64_MAX: there are none */
};

/* Makes room. False, with errno. */
bool vg_sockets_open(struct proxy_sockets *sockets);

/* Takes a socket of the command line, which stays the caller's. False, after a message. */
bool vg_sockets_add(struct proxy_sockets *sockets, char *text);

/* Listens at all sockets of the command line. Returns NULL, or the path of one where that cannot
 * be, with errno. */
const char *vg_sockets_listen(struct proxy_sockets *sockets);

/* Takes the sockets that the files NAME.conf of the folder say now, one in a line: those that are
 * new are listened at, now or as soon as that can be, and those that are there no more are closed,
 * and their clients ended. If there is anything wrong with a file, all stays as it was: false,
 * after a message. */
bool vg_sockets_read(struct proxy_sockets *sockets, const struct proxy_share *share);

/* Listens where that could not be before, if it is time. Returns for how many ms there is nothing
 * to do; -1: for ever. */
int vg_sockets_look(struct proxy_sockets *sockets);

/* Nobody can come any more. */
void vg_sockets_close(struct proxy_sockets *sockets);

/* Returns how many clients a socket may have that does not say: a quarter of all, so that one VM
 * does not keep the others out, and at least some. */
unsigned vg_sockets_usual_clients(unsigned clients_max);

/* Says in the log what each socket's clients had of the device. */
void vg_sockets_tell(const struct proxy_sockets *sockets, const struct proxy_share *share);

/* Frees what vg_sockets_open() and vg_sockets_read() took. */
void vg_sockets_free(struct proxy_sockets *sockets);

/* Closes and forgets what a client's process has of them, which came by MINE (NULL: it is none of a
 * client). */
void vg_sockets_leave(const struct proxy_sockets *sockets, const struct proxy_tenant *mine);

#endif
