/* SPDX-License-Identifier: Apache-2.0
 *
 * The inside of the API: what its threads share.
 */
#ifndef VG_API_SERVER_H
#define VG_API_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

#include "api/request.h"
#include "api/socket.h"
#include "api/tls.h"
#include "api/worker.h"
#include "base/thread.h"

#define VG_URL_MAX          8192
#define VG_HEADERS_MAX      100
#define VG_HEADER_BYTES_MAX 16384
#define VG_HTTP_ROUTES_MAX  63
#define VG_HTTP_CODES_MAX   20
#define VG_HEARTBEAT_NS     (15 * VG_NS_PER_S)

/* An IPv6 address with its zone. */
#define VG_ORIGIN_MAX 64

struct MHD_Connection;
struct MHD_Daemon;
struct MHD_Response;

/* Why somebody did not get what he wanted. */
enum vg_refused {
    VG_REFUSED_NOBODY,      /* 401 */
    VG_REFUSED_ROLE,        /* 403 */
    VG_REFUSED_CONNECTIONS, /* of one client; closed */
    VG_REFUSED_STRANGERS,   /* there were many, and it had not shown who it is; closed */
    VG_REFUSED_REQUESTS,    /* 429 */
    VG_REFUSED_WRITES,      /* 429 */
    VG_REFUSED_MAX
};

extern const char *const vg_refused_names[];

/* Counters; atomic. */
struct vg_http_stats {
    uint64_t requests[VG_HTTP_ROUTES_MAX + 1][VG_HTTP_CODES_MAX]; /* last row: no route */
    int64_t connections;
    int64_t streams;
    int64_t active; /* requests whose first line is there and that are not answered */
    uint64_t jobs_refused;
    uint64_t refused[VG_REFUSED_MAX];
};

/* Status number i, 0 at the end; what is not in it is counted as 500. */
extern const unsigned short vg_http_codes[VG_HTTP_CODES_MAX + 1];

/* One address that is listened on, or the unix socket. */
struct vg_listener {
    vg_api *api;
    bool is_tcp;
    struct MHD_Daemon *daemon;
    int64_t connections; /* that have not been ended; with api->lock */
};

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

/* Somebody who waits for events: a stream, or a poll. */
struct vg_wait {
    vg_api *api;
    struct MHD_Connection *connection;
    bool suspended;
    int64_t deadline_ns;   /* monotonic: of the next heartbeat, or the end of the poll */
    uint64_t at;           /* number of the event that was the last */
    uint64_t lost;         /* poll: events that were gone before they could be told */
    char *types;           /* NULL: all */
    char *token, *subject; /* of the request, owned; NULL: none */
    enum vg_role role;     /* that its route wants */
    GString *out;          /* of a stream: not yet sent ... */
    size_t sent;           /* ... but for this much */
    GList link;            /* in api->waits */
};

struct vg_api {
    struct vg_api_limits limits; /* atomic members */
    const struct vg_backend *backend;
    vg_event_log *events;
    const char *boot_id;
    vg_socket *socket;
    vg_tls *tls; /* NULL: no TCP */
    bool client_required;
    GPtrArray *listeners; /* struct vg_listener, owned */
    enum vg_role *roles;  /* of vg_routes */
    vg_worker *workers[VG_LANE_MAX];
    struct vg_http_stats stats;
    pthread_mutex_t lock; /* of what follows; taken before that of the event log */
    pthread_cond_t wake;  /* of the ticker */
    bool stopping;
    GQueue waits;        /* struct vg_wait */
    GQueue conns;        /* struct vg_conn */
    GHashTable *clients; /* name -> struct vg_client, owned */
    vg_thread *ticker;
};

#define VG_API_LIMIT(api, member) __atomic_load_n(&(api)->limits.member, __ATOMIC_RELAXED)

/* api/connect.c: connections, and the thread `api-tick` for what has a deadline. */
struct vg_client;
struct vg_conn *vg_conn_new(struct vg_listener *listener, int fd);
void vg_conn_free(struct vg_conn *conn);
void vg_conn_expect_request(struct vg_conn *conn);
void vg_conn_has_request(struct vg_conn *conn);
void vg_conn_is_known(struct vg_conn *conn);
int vg_ticker_start(vg_api *api, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* api/sse.c. begin: NULL if there are too many. */
struct vg_wait *vg_wait_begin(struct vg_request *request, uint64_t at, const char *types);
void vg_wait_free(void *wait);
/* Bytes written to buffer; 0: suspended; -1: the end. */
ssize_t vg_stream_read(struct vg_wait *wait, char *buffer, size_t max);
void vg_waits_wake(void *api); /* all of them: there is an event, or the end */
/* Resumes those whose time has come; the earliest deadline of the others. With api->lock. */
int64_t vg_waits_tick(vg_api *api, int64_t now_ns);
/* Suspends the poll of a request; false: the daemon ends, answer now. */
bool vg_poll_suspend(struct vg_request *request);
/* Fills the answer, or false: nothing yet. */
bool vg_poll_answer(struct vg_request *request, bool force);

/* api/response.c: the answer of a request, which hands over what it owns. NULL: out of memory. */
struct MHD_Response *vg_response_new(struct vg_request *request);

static inline void
vg_api_count_refused(vg_api *api, enum vg_refused why)
{
    __atomic_add_fetch(&api->stats.refused[why], 1, __ATOMIC_RELAXED);
}

#endif
