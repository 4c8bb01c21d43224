/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks the proxies of this host ([gpu] proxies) which sockets they have, and to keep memory of
 * their GPUs for programs that will come. All functions block, up to two seconds for each proxy
 * that hangs. Any thread.
 */
#ifndef VG_MOVER_PROXY_ROOM_H
#define VG_MOVER_PROXY_ROOM_H

#include <glib.h>

#include "model/proxy-socket.h"

/* Returns the sockets (struct vg_proxy_socket) of all that run; the caller frees the list. */
GPtrArray *vg_proxy_room_list(const char *proxies, GError **err);

/* Has the one keep memory that has the socket which room names. VG_E_NOT_FOUND: none has;
 * VG_E_CONFLICT: it has too little; VG_E_REFUSED: it keeps none, or several have such a socket. */
int vg_proxy_room_reserve(const char *proxies, const struct vg_proxy_room *room, GError **err);

/* VG_E_NOT_FOUND: nothing is kept by this id. */
int vg_proxy_room_release(const char *proxies, const char *id, GError **err);

#endif
