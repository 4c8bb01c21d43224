/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent's unix sockets, whose paths may be longer than an address can hold. Any process of the
 * agent.
 */
#ifndef VG_GUEST_SOCKET_H
#define VG_GUEST_SOCKET_H

#include <sys/types.h>

/* Creates the socket root/path, replacing any old one, with these permissions, and listens on it
 * in non-blocking mode. Its directory must exist. type is as in socket(2). Returns the socket, or
 * -1 and errno. */
int vg_guest_socket_listen(const char *root, const char *path, int type, mode_t mode);

/* Connects to the socket root/path. The connection is non-blocking. Returns it, or -1. */
int vg_guest_socket_connect(const char *root, const char *path, int type);

#endif
