/* SPDX-License-Identifier: Apache-2.0
 *
 * The unix socket: made so that nobody can connect before its owner and mode are right, removed
 * only if it is still the one that was made; and who is on its other side.
 */
#ifndef VG_API_SOCKET_H
#define VG_API_SOCKET_H

#include <stdbool.h>
#include <sys/types.h>

#include <glib.h>

#include "api/request.h"

typedef struct vg_socket vg_socket;

/* group: NULL or empty leaves that of the process. Errors as vg_api_new(). */
vg_socket *vg_socket_new(const char *path, unsigned mode, const char *group, GError **err);

/* Whether one could be made: VG_E_CONFLICT if somebody listens there, or it is something else. What
 * nobody listens on any more is removed. */
int vg_socket_check(const char *path, GError **err);

/* Removes it, if it is still ours. The descriptor is closed by whoever took it. NULL is fine. */
void vg_socket_free(vg_socket *socket);

/* Non-blocking and listening. take: it is then the caller's. */
int vg_socket_take_fd(vg_socket *socket);
gid_t vg_socket_gid(const vg_socket *socket);

int vg_peer_read(int fd, struct vg_peer *ret, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* As the kernel knew the peer when it connected. */
bool vg_peer_has_group(int fd, const struct vg_peer *peer, gid_t group);

#endif
