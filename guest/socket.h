/* SPDX-License-Identifier: Apache-2.0
 *
 * Unix sockets of the agent, whose paths may be longer than an address has room for. Any process of
 * the agent.
 */
#ifndef VG_GUEST_SOCKET_H
#define VG_GUEST_SOCKET_H

#include <sys/types.h>

/* Makes the socket root/path anew, with these permissions, and listens on it without waiting; its
 * directory is there. type is that of socket(2). Returns it, or -1 and errno. */
int vg_guest_socket_listen(const char *root, const char *path, int type, mode_t mode);

/* Connects to the socket root/path. What is sent and received later does not wait. Returns the
 * connection, or -1. */
int vg_guest_socket_connect(const char *root, const char *path, int type);

#endif
