/* SPDX-License-Identifier: Apache-2.0
 *
 * The share of the API that one client (an address, or a user of this machine) may take:
 * connections at once, and requests and writes per time. A slow, broken or hostile client uses up
 * its own share only. All functions lock api->lock.
 */
#ifndef VG_API_CLIENT_H
#define VG_API_CLIENT_H

#include "api/server.h"

/* Clients beyond these are known only while they are connected. */
#define VG_CLIENTS_MAX 4096

struct vg_client;

/* Begins a connection; name is "uid:N" or an address. NULL: the client has too many. */
struct vg_client *vg_client_enter(vg_api *api, const char *name);
void vg_client_leave(vg_api *api, struct vg_client *client);

/* Take a request, or a write, from the client's share. Return 0, or in how many seconds there will
 * be one, at least 1. */
int vg_client_take_request(vg_api *api, struct vg_client *client);
int vg_client_take_write(vg_api *api, struct vg_client *client);

void vg_client_free(void *client); /* destroys a value of api->clients */

#endif
