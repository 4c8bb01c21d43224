/* SPDX-License-Identifier: Apache-2.0
 *
 * What one client, an address or a user of this machine, may take of the API: connections at once,
 * requests and writes in a time. So that one that is slow, broken or hostile takes its own share
 * and nobody else's. All functions lock api->lock.
 */
#ifndef VG_API_CLIENT_H
#define VG_API_CLIENT_H

#include "api/server.h"

/* More than these are known only while they are connected. */
#define VG_CLIENTS_MAX 4096

struct vg_client;

/* A connection begins; name is "uid:N" or an address. NULL: the client has too many. */
struct vg_client *vg_client_enter(vg_api *api, const char *name);
void vg_client_leave(vg_api *api, struct vg_client *client);

/* Takes a request, or a write, of what the client has left; else returns in how many seconds there
 * will be one, at least 1. */
int vg_client_take_request(vg_api *api, struct vg_client *client);
int vg_client_take_write(vg_api *api, struct vg_client *client);

void vg_client_free(void *client); /* of api->clients */

#endif
