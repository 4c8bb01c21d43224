/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections, and the thread `api-tick`, which watches deadlines.
 */
#ifndef VG_API_CONNECT_H
#define VG_API_CONNECT_H

#include "api/listen.h"

/* An IPv6 address with its zone. */
#define VG_ORIGIN_MAX 64

struct MHD_Connection;
struct vg_client;

/* A connection, from libmicrohttpd's notice of its start to that of its end. */
struct vg_conn {
    vg_api *api;
    struct vg_listener *listener;
    int fd;
    bool is_tcp;
    bool settled;                /* the connection was asked who the client is */
    char *subject;               /* subject of its certificate, owned; NULL: none was shown */
    bool is_client;              /* that certificate may be a client's, as its usages say */
    bool known;                  /* atomic: the client has identified itself in a request */
    bool ended;                  /* we shut it down; with api->lock */
    gnutls_session_t session;    /* session of TCP */
    struct vg_client *client;    /* NULL: the client has too many, and this one is closed */
    char origin[VG_ORIGIN_MAX];  /* "unix", or the client's address */
    struct vg_identity identity; /* from the credentials of the socket */
    struct vg_peer peer;         /* process on the socket */
    int64_t deadline_ns;         /* atomic, monotonic: deadline of the request; 0: it has come */
    GList link;
};

struct vg_conn *vg_conn_new(struct vg_listener *listener, int fd);
void vg_conn_free(struct vg_conn *conn);

/* Returns the connection that libmicrohttpd means; NULL if it has none. */
struct vg_conn *vg_conn_of(struct MHD_Connection *connection);

/* Set the deadline of the next request, and note that it has come. */
void vg_conn_expect_request(struct vg_conn *conn);
void vg_conn_has_request(struct vg_conn *conn);

/* Notes that a request came from somebody whose identity is known. */
void vg_conn_is_known(struct vg_conn *conn);

int vg_ticker_start(vg_api *api, GError **err) G_GNUC_WARN_UNUSED_RESULT;

#endif
