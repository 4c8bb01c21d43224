/* SPDX-License-Identifier: Apache-2.0
 *
 * Authentication and authorisation: on the unix socket by the peer's credentials, over TCP by the
 * certificate of the connection or the bearer token of the request.
 */
#ifndef VG_API_IDENTITY_H
#define VG_API_IDENTITY_H

#include "api/server.h"

struct vg_conn;

/* Settles request->identity. authorization: the header field, or NULL. Returns false if the answer
 * is set, 401 or 503. */
bool vg_identity_settle(struct vg_request *request, struct vg_conn *conn,
                        const char *authorization);

/* Tells if this identity may use the route, which wants this role, and is for peers, too, or not;
 * if it may not, the answer is set, 403. */
bool vg_identity_may(struct vg_request *request, enum vg_role role, bool is_for_peers);

/* Tells if a client that was let in by a token or a subject still has the role; true if both are
 * NULL, as on the socket, or if it is not known now. Any thread. */
bool vg_identity_holds(const struct vg_backend *backend, const char *token, const char *subject,
                       enum vg_role role);

#endif
