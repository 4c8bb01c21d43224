/* SPDX-License-Identifier: Apache-2.0
 *
 * The HTTP/JSON API, on a unix socket and optionally on TCP addresses with TLS. libmicrohttpd's
 * threads answer from views: a pool of 2 for the socket and one for each address, which it names
 * MHD-worker. Worker threads, `api-work` and others, make calls that may block. `api-tick` sleeps
 * until a wait has lasted long enough. The contract is schema/api/openapi.yaml. Every error is an
 * application/problem+json (RFC 9457), except for input that libmicrohttpd cannot parse as HTTP.
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
    /* The maximum number of concurrent connections of each listener, set at start; further
     * connections wait to be accepted. When three quarters are in use, a new connection ends the
     * oldest connection whose client has not identified itself. */
    int64_t connections;
    int64_t client_connections; /* connections of one user id or address; further ones are closed
                                 * immediately */
    int64_t client_requests; /* requests per second of one client; further ones are answered 429 */
    int64_t client_streams;  /* concurrent streams of one user; further ones are answered 429 */
    int64_t streams;         /* concurrent streams of /v1/events, including polls */
    int64_t body_bytes;      /* size of a request's body */
    int64_t idle_ns;         /* whole seconds: an idle connection is closed, as is a slow request */
    int64_t writes_per_min;  /* writes per minute of one client; further ones are answered 429 */
};

struct vg_api_options {
    const char *socket;       /* path; an old socket there without a listener is replaced */
    unsigned int socket_mode; /* 0660 */
    const char *socket_group; /* NULL or empty for the group of the process */
    /* The addresses, "192.0.2.1:8447", "[::]:8447"; NULL-terminated; NULL or empty for none. They
     * need certificate and key, paths of PEM files. client_ca: path of the CA certificates for
     * clients, or NULL if client certificates are not requested. client_required: clients without a
     * certificate are refused. */
    const char *const *listen;
    const char *certificate, *key, *client_ca;
    bool client_required;
    struct vg_api_limits limits;
    int64_t job_wait_ns;  /* the maximum time that a job that may block waits; 0 for 15 s */
    int64_t heartbeat_ns; /* the maximum time between two messages of a stream; 0 for 15 s */
    const struct vg_backend *backend; /* borrowed */
    vg_event_log *events;             /* borrowed */
};

typedef struct vg_api vg_api;

/* Finds the group with this name. Fails with VG_E_NOT_FOUND. */
int vg_api_find_group(const char *name, gid_t *ret, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Checks the addresses of options.listen, without listening. */
int vg_api_check_listen(const char *const *addresses, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Listens and serves; the backend must already have a view. Fails with VG_E_CONFLICT if a process
 * listens on the socket or it is another kind of file, VG_E_INVALID if its path is too long, and
 * VG_E_NOT_FOUND if its directory or group does not exist. Fails with VG_E_IO or VG_E_DENIED,
 * naming the path, if the socket cannot be created. Signals are blocked in its threads; the caller
 * must handle SIGPIPE. */
vg_api *vg_api_new(const struct vg_api_options *options, GError **err);

/* Sets all limits except the number of connections. The idle time applies to new connections. */
void vg_api_set_limits(vg_api *api, const struct vg_api_limits *limits);

/* Reads the certificate and the key again, for new connections. On failure, the old ones remain in
 * use. */
int vg_api_reload_certificate(vg_api *api, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Returns when the certificate in use expires, in nanoseconds since the epoch; INT64_MAX without a
 * certificate. */
int64_t vg_api_certificate_end_ns(const vg_api *api);

/* Ends streams, completes answers (503 for jobs that have not started), and removes the socket and
 * the event log's listener. This takes as long as the running job, and up to half a second for
 * clients in the middle of a request. NULL is fine. */
void vg_api_free(vg_api *api);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_api, vg_api_free)

/* Returns the worker, for monitoring its heartbeat. */
const vg_thread *vg_api_thread(const vg_api *api);

#endif
