/* SPDX-License-Identifier: Apache-2.0
 *
 * Authentication and authorisation: on the unix socket by the peer's credentials, and over TCP by
 * the connection's certificate or the request's bearer token.
 */
#ifndef VG_API_IDENTITY_H
#define VG_API_IDENTITY_H

#include "api/server.h"

struct vg_conn;

/* Determines request->identity. authorization: the header field, or NULL. Returns false if the
 * answer has been set, to 401 or 503. */
bool vg_identity_settle(struct vg_request *request, struct vg_conn *conn,
                        const char *authorization);

/* Returns whether this identity may use the route. role: the role that the route requires;
 * is_for_peers: the role peer also suffices. If the identity may not use the route, the answer is
 * set to 403. */
bool vg_identity_may(struct vg_request *request, enum vg_role role, bool is_for_peers);

/* Returns whether the token or certificate subject that admitted a client still has the role.
 * Returns true if both are NULL (unix socket) or if this cannot be determined now. Any thread. */
bool vg_identity_holds(const struct vg_backend *backend, const char *token, const char *subject,
                       enum vg_role role);

#endif
