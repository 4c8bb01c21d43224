/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests to this host's proxies ([gpu] proxies): lists their sockets, and reserves their GPUs'
 * memory for programs that are about to connect. All functions block, up to two seconds for each
 * proxy that hangs. Any thread.
 */
#ifndef VG_MOVER_PROXY_ROOM_H
#define VG_MOVER_PROXY_ROOM_H

#include <glib.h>

#include "model/proxy-socket.h"

/* Returns the sockets (struct vg_proxy_socket) of all running proxies; the caller frees the
 * list. */
GPtrArray *vg_proxy_room_list(const char *proxies, GError **err);

/* Makes the proxy with the socket named in room reserve memory. Fails with VG_E_NOT_FOUND if no
 * proxy has the socket, VG_E_CONFLICT if it has too little memory, or VG_E_REFUSED if it does not
 * support reservations, or several proxies have such a socket. */
int vg_proxy_room_reserve(const char *proxies, const struct vg_proxy_room *room, GError **err);

/* Fails with VG_E_NOT_FOUND if no reservation has this id. */
int vg_proxy_room_release(const char *proxies, const char *id, GError **err);

#endif
