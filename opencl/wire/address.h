/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a proxy is: the path of a unix socket, `tcp:HOST:PORT`, `tls:HOST:PORT`, which is the same
 * with TLS, or `vsock:CID:PORT`, where a proxy that listens has `vsock:PORT`.
 */
#ifndef VG_OPENCL_WIRE_ADDRESS_H
#define VG_OPENCL_WIRE_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

#define VG_WIRE_TOKEN_MAX 64  /* bytes */
#define VG_WIRE_HOST_MAX  256 /* bytes */

/* Whether ADDRESS is that of another machine, whose programs have to show who they are. */
bool vg_wire_address_is_far(const char *address);

/* Whether what goes to and from ADDRESS is to be encrypted. */
bool vg_wire_address_is_tls(const char *address);

/* Whether what goes to and from ADDRESS, which may be one to listen at, is seen in clear by others
 * than this machine and its VMs: it is one of TCP, and not of this machine alone. */
bool vg_wire_address_is_clear(const char *address);

/* Says the HOST of an address of TCP or TLS, without brackets. False: there is none. */
bool vg_wire_address_host(const char *address, char host[VG_WIRE_HOST_MAX]);

/* Where an address was reached; 0: it was not yet. */
struct vg_wire_place {
    struct sockaddr_storage at;
    socklen_t size;
};

/* Returns a socket that is connected to ADDRESS, for which all that is done takes up to LIMIT_S
 * seconds (vg_wire_address_limit); -1, with errno. PLACE, which may be NULL, gets where that is;
 * from then on nobody is asked for its name, who may be out of reach when the proxy is. */
int vg_wire_address_connect(const char *address, struct vg_wire_place *place, int limit_s);

/* 0: there is no limit. */
void vg_wire_address_limit(int fd, int limit_s);

/* Returns a socket that listens at ADDRESS, which is far; -1, with errno. */
int vg_wire_address_listen(const char *address);

/* Has FD, which may be of any kind, send at once, and end when the other side is gone. */
void vg_wire_address_tune(int fd);

/* Reads the token in the file PATH, without what ends its line. False, with errno. */
bool vg_wire_address_token(const char *path, char token[VG_WIRE_TOKEN_MAX]);

#endif
