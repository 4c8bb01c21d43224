/* SPDX-License-Identifier: Apache-2.0
 *
 * The API's listeners: the unix socket, and TCP addresses with TLS.
 */
#ifndef VG_API_LISTEN_H
#define VG_API_LISTEN_H

#include "api/server.h"

struct MHD_Daemon;

/* A listener on one address, or on the unix socket. */
struct vg_listener {
    vg_api *api;
    bool is_tcp;
    struct MHD_Daemon *daemon;
    int64_t connections; /* connections not shut down by the API; with api->lock */
};

/* Listens on the addresses of the options, then on the socket. */
int vg_listen(vg_api *api, const struct vg_api_options *options,
              GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Stops listening and ends all connections. */
void vg_listener_free(void *listener);

#endif
