/* SPDX-License-Identifier: Apache-2.0
 *
 * The unix socket, and the process at its other end. No client can connect before its owner and
 * mode are set. It is removed only if it is still the socket that was created.
 */
#ifndef VG_API_SOCKET_H
#define VG_API_SOCKET_H

#include <stdbool.h>
#include <sys/types.h>

#include <glib.h>

#include "api/request.h"

typedef struct vg_socket vg_socket;

/* Creates the socket. group: NULL or empty for the process's group. Errors are as for
 * vg_api_new(). */
vg_socket *vg_socket_new(const char *path, unsigned mode, const char *group, GError **err);

/* Checks whether a socket could be created. Fails with VG_E_CONFLICT if a process listens there, or
 * the path is not a socket. A socket without a listener is removed. */
int vg_socket_check(const char *path, GError **err);

/* Removes the socket if it is still the one that was created. The owner of the descriptor closes
 * it. NULL is fine. */
void vg_socket_free(vg_socket *socket);

/* Returns the descriptor, which listens and does not block, and passes its ownership to the
 * caller. */
int vg_socket_take_fd(vg_socket *socket);
gid_t vg_socket_gid(const vg_socket *socket);

int vg_peer_read(int fd, struct vg_peer *ret, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Returns whether the peer was in the group when it connected. */
bool vg_peer_has_group(int fd, const struct vg_peer *peer, gid_t group);

#endif
