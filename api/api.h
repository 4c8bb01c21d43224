/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP/JSON API, on a unix socket and, if wanted, on TCP addresses with TLS. libmicrohttpd's
 * threads (a pool of 2 for the socket and one for each address, which it names MHD-worker) answer
 * from views; worker threads, `api-work` and others, call what may block;
 * `api-tick` sleeps until somebody has waited long enough. The contract is schema/api/openapi.yaml;
 * every error is an application/problem+json of RFC 9457, but for what libmicrohttpd cannot read as
 * HTTP.
 */
#ifndef VG_API_API_H
#define VG_API_API_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <glib.h>

#include "api/backend.h"
#include "base/event-log.h"
#include "base/thread.h"

struct vg_api_limits {
    /* The connections of each listener at once, as set at the start; further ones wait to be
     * accepted. At three quarters of them, a new connection ends the oldest one whose client has
     * not identified itself. */
    int64_t connections;
    int64_t client_connections; /* connections of one user id or address; more are closed at once */
    int64_t client_requests;    /* requests of one client per second; more are answered 429 */
    int64_t client_streams;     /* streams of one user at once, likewise */
    int64_t streams;            /* streams of /v1/events at once, polls included */
    int64_t body_bytes;         /* size of a request's body */
    int64_t idle_ns;        /* whole seconds: a silent connection is closed, a slow request too */
    int64_t writes_per_min; /* writes of one client; more are answered 429 */
};

struct vg_api_options {
    const char *socket;       /* path; an old socket there that nobody listens on is replaced */
    unsigned int socket_mode; /* 0660 */
    const char *socket_group; /* NULL or empty: the group of the process */
    /* The addresses, "192.0.2.1:8447", "[::]:8447"; NULL-terminated; NULL or empty: none. They
     * need certificate and key, paths of PEM files. client_ca: path of the CAs of clients; NULL:
     * clients are not asked for certificates. client_required: clients without a certificate are
     * refused. */
    const char *const *listen;
    const char *certificate, *key, *client_ca;
    bool client_required;
    struct vg_api_limits limits;
    int64_t job_wait_ns;              /* the longest wait of a job that may block; 0: 15 s */
    int64_t heartbeat_ns;             /* the longest silence of a stream; 0: 15 s */
    const struct vg_backend *backend; /* borrowed */
    vg_event_log *events;             /* borrowed */
};

typedef struct vg_api vg_api;

/* Finds the group of this name; VG_E_NOT_FOUND: there is none. */
int vg_api_find_group(const char *name, gid_t *ret, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Listens and serves; the backend must have a view already. VG_E_CONFLICT if somebody listens on
 * the socket or it is another kind of file, VG_E_INVALID if its path is too long, VG_E_NOT_FOUND
 * for its directory or group, VG_E_IO or VG_E_DENIED, naming the path, if it cannot be made.
 * Signals are blocked in its threads; SIGPIPE is the caller's business. */
vg_api *vg_api_new(const struct vg_api_options *options, GError **err);

/* Sets all limits but the number of connections; the idle time holds for new connections. */
void vg_api_set_limits(vg_api *api, const struct vg_api_limits *limits);

/* Reads certificate and key again, for new connections. On failure the old ones stay. */
int vg_api_reload_certificate(vg_api *api, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Returns when the certificate in use ends, in nanoseconds since the epoch; INT64_MAX without one.
 */
int64_t vg_api_certificate_end_ns(const vg_api *api);

/* Ends streams, finishes answers (jobs that have not begun: 503), and removes the socket. The event
 * log loses its listener. This takes as long as the running job, and up to half a second for
 * clients that are half-way through a request. NULL is fine. */
void vg_api_free(vg_api *api);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_api, vg_api_free)

/* Returns the worker, whose heartbeat is watched. */
const vg_thread *vg_api_thread(const vg_api *api);

#endif
