/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses of proxies: the path of a unix socket, `tcp:HOST:PORT`, `tls:HOST:PORT`, or
 * `vsock:CID:PORT`. A proxy listens at `vsock:PORT`.
 */
#ifndef VG_OPENCL_WIRE_ADDRESS_H
#define VG_OPENCL_WIRE_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

#define VG_WIRE_TOKEN_MAX 64  /* bytes */
#define VG_WIRE_HOST_MAX  256 /* bytes */

/* Returns whether ADDRESS belongs to another machine, so that its programs must authenticate. */
bool vg_wire_address_is_far(const char *address);

/* Returns whether traffic with ADDRESS must be encrypted. */
bool vg_wire_address_is_tls(const char *address);

/* Returns whether traffic with ADDRESS, which may be one to listen at, is visible in clear outside
 * this machine and its VMs: it uses TCP and is not limited to this machine. */
bool vg_wire_address_is_clear(const char *address);

/* Extracts the HOST of a TCP or TLS address, without brackets. Returns false if it has none. */
bool vg_wire_address_host(const char *address, char host[VG_WIRE_HOST_MAX]);

/* The resolved address; its size is 0 until the first connection. */
struct vg_wire_place {
    struct sockaddr_storage at;
    socklen_t size;
};

/* Returns a socket connected to ADDRESS, or -1 with errno. Every operation on it takes at most
 * LIMIT_S seconds (vg_wire_address_limit). PLACE, which may be NULL, stores the resolved address.
 * Later calls need no name server, which may be unreachable together with the proxy. */
int vg_wire_address_connect(const char *address, struct vg_wire_place *place, int limit_s);

/* A limit of 0 means none. */
void vg_wire_address_limit(int fd, int limit_s);

/* Returns a socket that listens at ADDRESS, which must be remote, or -1 with errno. */
int vg_wire_address_listen(const char *address);

/* Configures FD, of any kind, to send without delay and to detect an unreachable peer. */
void vg_wire_address_tune(int fd);

/* Reads the token from the file PATH, without the line end. Returns false with errno on failure. */
bool vg_wire_address_token(const char *path, char token[VG_WIRE_TOKEN_MAX]);

#endif
