/* SPDX-License-Identifier: Apache-2.0
 *
 * One client's share of the API, where a client is an address or a local user: concurrent
 * connections, and requests and writes per time. A slow, broken or hostile client can only use up
 * its own share. All functions lock api->lock.
 */
#ifndef VG_API_CLIENT_H
#define VG_API_CLIENT_H

#include "api/server.h"

/* Clients beyond this number are remembered only while they are connected. */
#define VG_CLIENTS_MAX 4096

struct vg_client;

/* Registers a connection; name is "uid:N" or an address. Returns NULL if the client has too many
 * connections. */
struct vg_client *vg_client_enter(vg_api *api, const char *name);
void vg_client_leave(vg_api *api, struct vg_client *client);

/* Deduct a request, or a write, from the client's share. Return 0, or the seconds until one is
 * available, at least 1. */
int vg_client_take_request(vg_api *api, struct vg_client *client);
int vg_client_take_write(vg_api *api, struct vg_client *client);

void vg_client_free(void *client); /* destroys a value of api->clients */

#endif
