/* SPDX-License-Identifier: Apache-2.0
 *
 * Queries a vgpu-proxy on this host about the activity of VMs' programs (docs/vgpu-proxy.8,
 * CONTROL SOCKET). One thread.
 */
#ifndef VG_HOST_PROXY_CONTROL_H
#define VG_HOST_PROXY_CONTROL_H

#include <glib.h>

#include "model/proxy-show.h"

typedef struct vg_proxy_control vg_proxy_control;

/* Connects to the proxy with the control socket at path. Each answer may take limit_ns. Returns
 * NULL and VG_E_IO, or VG_E_NOT_FOUND if the socket does not exist. */
vg_proxy_control *vg_proxy_control_open(const char *path, int64_t limit_ns, GError **err);
void vg_proxy_control_close(vg_proxy_control *control); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_proxy_control, vg_proxy_control_close)

/* Returns struct vg_proxy_socket, which the caller frees, or NULL; the connection is then
 * unusable. */
GPtrArray *vg_proxy_control_list(vg_proxy_control *control, GError **err);

/* The same in two steps without blocking: the first sends the request, the second takes the
 * answer. The second returns NULL without an error if the answer has not arrived. The descriptor
 * is then readable when it has. */
int vg_proxy_control_request_list(vg_proxy_control *control, GError **err);
GPtrArray *vg_proxy_control_take_list(vg_proxy_control *control, GError **err);
int vg_proxy_control_fd(const vg_proxy_control *control);

/* Returns all details of a socket, which the caller frees. Fails with VG_E_NOT_FOUND if the proxy
 * has no such socket, otherwise as vg_proxy_control_list(). */
struct vg_proxy_shown *vg_proxy_control_show(vg_proxy_control *control, const char *socket,
                                             GError **err);

/* Sets a socket's weight. Fails with VG_E_NOT_FOUND if the proxy has no such socket, otherwise as
 * vg_proxy_control_list(). */
int vg_proxy_control_set_weight(vg_proxy_control *control, const char *socket, int64_t weight,
                                GError **err);

/* Reserves memory for programs that will connect to a socket, as specified by room. Fails with
 * VG_E_CONFLICT if too little is available, VG_E_REFUSED if the proxy cannot determine that or is
 * too old, otherwise as vg_proxy_control_list(). */
int vg_proxy_control_reserve(vg_proxy_control *control, const char *socket,
                             const struct vg_proxy_room *room, GError **err);

/* Fails with VG_E_NOT_FOUND if no reservation has this id, otherwise as vg_proxy_control_list(). */
int vg_proxy_control_release(vg_proxy_control *control, const char *id, GError **err);

#endif
