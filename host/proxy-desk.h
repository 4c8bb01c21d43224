/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks a vgpu-proxy of this host what programs of VMs do by it (docs/vgpu-proxy.8, CONTROL SOCKET).
 * One thread.
 */
#ifndef VG_HOST_PROXY_DESK_H
#define VG_HOST_PROXY_DESK_H

#include <glib.h>

#include "model/proxy-show.h"

typedef struct vg_proxy_desk vg_proxy_desk;

/* Connects to the proxy that is asked at path, each of whose answers may take limit_ns. NULL:
 * VG_E_IO, or VG_E_NOT_FOUND where there is none. */
vg_proxy_desk *vg_proxy_desk_open(const char *path, int64_t limit_ns, GError **err);
void vg_proxy_desk_close(vg_proxy_desk *desk); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_proxy_desk, vg_proxy_desk_close)

/* Returns struct vg_proxy_socket, which the caller frees, or NULL: the desk is of no use any more
 * then. */
GPtrArray *vg_proxy_desk_list(vg_proxy_desk *desk, GError **err);

/* The same without waiting: asks, and takes the answer, which NULL without an error has not come
 * yet. The descriptor is readable when it has. */
int vg_proxy_desk_ask_list(vg_proxy_desk *desk, GError **err);
GPtrArray *vg_proxy_desk_take_list(vg_proxy_desk *desk, GError **err);
int vg_proxy_desk_fd(const vg_proxy_desk *desk);

/* Returns all that there is to a socket, which the caller frees. VG_E_NOT_FOUND: it has none of
 * that path. Otherwise as vg_proxy_desk_list(). */
struct vg_proxy_shown *vg_proxy_desk_show(vg_proxy_desk *desk, const char *socket, GError **err);

/* Gives a socket another weight. VG_E_NOT_FOUND: it has none of that path. Otherwise as
 * vg_proxy_desk_list(). */
int vg_proxy_desk_set_weight(vg_proxy_desk *desk, const char *socket, int64_t weight, GError **err);

/* Has memory be kept for programs that will come by a socket, as room says. VG_E_CONFLICT: there is
 * too little; VG_E_REFUSED: the proxy cannot tell, or is older than this. Otherwise as
 * vg_proxy_desk_list(). */
int vg_proxy_desk_reserve(vg_proxy_desk *desk, const char *socket, const struct vg_proxy_room *room,
                          GError **err);

/* VG_E_NOT_FOUND: nothing is kept by this id. Otherwise as vg_proxy_desk_list(). */
int vg_proxy_desk_release(vg_proxy_desk *desk, const char *id, GError **err);

#endif
