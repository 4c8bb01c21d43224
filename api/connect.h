/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections, and the thread `api-tick`, which monitors deadlines.
 */
#ifndef VG_API_CONNECT_H
#define VG_API_CONNECT_H

#include "api/listen.h"

/* Size of an IPv6 address with its zone. */
#define VG_ORIGIN_MAX 64

struct MHD_Connection;
struct vg_client;

/* A connection; exists between libmicrohttpd's notifications of its start and end. */
struct vg_conn {
    vg_api *api;
    struct vg_listener *listener;
    int fd;
    bool is_tcp;
    bool settled;   /* the client has been determined */
    char *subject;  /* subject of the client's certificate, owned; NULL without certificate */
    bool is_client; /* the certificate's key usages allow clients */
    bool known;     /* atomic: the client has identified itself in a request */
    bool ended;     /* shut down by the API; with api->lock */
    gnutls_session_t session; /* for TCP */
    struct vg_client
        *client; /* NULL if the client has too many connections; the connection is then closed */
    char origin[VG_ORIGIN_MAX];  /* "unix", or the client's address */
    struct vg_identity identity; /* from the credentials of the socket */
    struct vg_peer peer;         /* process on the socket */
    int64_t deadline_ns; /* atomic, monotonic: deadline for the request; 0 after it arrived */
    GList link;
};

struct vg_conn *vg_conn_new(struct vg_listener *listener, int fd);
void vg_conn_free(struct vg_conn *conn);

/* Returns the struct for a libmicrohttpd connection, or NULL. */
struct vg_conn *vg_conn_of(struct MHD_Connection *connection);

/* The first function sets the deadline for the next request. The second records that the request
 * has arrived. */
void vg_conn_expect_request(struct vg_conn *conn);
void vg_conn_has_request(struct vg_conn *conn);

/* Records that a request with a known identity has arrived. */
void vg_conn_is_known(struct vg_conn *conn);

int vg_ticker_start(vg_api *api, GError **err) G_GNUC_WARN_UNUSED_RESULT;

#endif
