/* SPDX-License-Identifier: Apache-2.0
 *
 * Who sends a request, and whether he may: on the unix socket by the peer's credentials, over TCP
 * by the certificate of the connection or the bearer token of the request.
 */
#ifndef VG_API_IDENTITY_H
#define VG_API_IDENTITY_H

#include "api/server.h"

struct vg_conn;

/* Settles request->identity. authorization: the header field, or NULL. false: the answer is set,
 * 401 or 503. */
bool vg_identity_settle(struct vg_request *request, struct vg_conn *conn,
                        const char *authorization);

/* May this identity use the route? Else the answer is set, 403. */
bool vg_identity_may(struct vg_request *request, enum vg_role role);

/* Whoever was let in by these, of which one may be there: does he still have the role? NULL, as on
 * the socket: yes. Not known now: yes. Any thread. */
bool vg_identity_holds(const struct vg_backend *backend, const char *token, const char *subject,
                       enum vg_role role);

#endif
