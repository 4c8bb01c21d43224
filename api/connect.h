/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections, and the thread `api-tick` for what has a deadline.
 */
#ifndef VG_API_CONNECT_H
#define VG_API_CONNECT_H

#include "api/listen.h"

/* An IPv6 address with its zone. */
#define VG_ORIGIN_MAX 64

struct MHD_Connection;
struct vg_client;

/* A connection; alive from libmicrohttpd's notice of it to its end. */
struct vg_conn {
    vg_api *api;
    struct vg_listener *listener;
    int fd;
    bool is_tcp;
    bool settled;             /* who it is, as far as the connection tells */
    char *subject;            /* of its certificate, owned; NULL: it has shown none */
    bool known;               /* atomic: there was a request of somebody whose identity is known */
    bool ended;               /* by us, and not yet noticed; with api->lock */
    gnutls_session_t session; /* of TCP */
    struct vg_client *client; /* NULL: it has too many, and this one is closed */
    char origin[VG_ORIGIN_MAX];  /* "unix", or the address */
    struct vg_identity identity; /* by credentials of the socket */
    struct vg_peer peer;         /* of the socket */
    int64_t deadline_ns; /* atomic, monotonic: the request must have come by then; 0: it has */
    GList link;
};

struct vg_conn *vg_conn_new(struct vg_listener *listener, int fd);
void vg_conn_free(struct vg_conn *conn);

/* Returns the connection that libmicrohttpd means; NULL if it has none. */
struct vg_conn *vg_conn_of(struct MHD_Connection *connection);

/* Sets the deadline by which the next request must have come, or that it has come. */
void vg_conn_expect_request(struct vg_conn *conn);
void vg_conn_has_request(struct vg_conn *conn);

/* Notes that a request came from somebody whose identity is known. */
void vg_conn_is_known(struct vg_conn *conn);

int vg_ticker_start(vg_api *api, GError **err) G_GNUC_WARN_UNUSED_RESULT;

#endif
