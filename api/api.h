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
#include "api/event-log.h"
#include "base/thread.h"

struct vg_api_limits {
    /* Of each listener at once, as of the start; more wait to be accepted. With three quarters of
     * them, a new one ends the oldest whose client is not known yet. */
    int64_t connections;
    int64_t client_connections; /* of one user id, or address; more are closed at once */
    int64_t client_requests;    /* of one of these in a second; more are answered 429 */
    int64_t streams;            /* of /v1/events at once, polls included */
    int64_t body_bytes;         /* of a request */
    int64_t idle_ns;        /* whole seconds: a silent connection is closed, a slow request too */
    int64_t writes_per_min; /* likewise, of those that write */
};

struct vg_api_options {
    const char *socket;       /* path; an old socket there that nobody listens on is replaced */
    unsigned int socket_mode; /* 0660 */
    const char *socket_group; /* NULL or empty: that of the process */
    /* Addresses, "192.0.2.1:8447", "[::]:8447"; NULL-terminated; NULL or empty: none. Each needs
     * certificate and key, paths of PEM files. client_ca: likewise, NULL: certificates of clients
     * are not asked for; client_required: who has none is refused. */
    const char *const *listen;
    const char *certificate, *key, *client_ca;
    bool client_required;
    struct vg_api_limits limits;
    const struct vg_backend *backend; /* borrowed */
    vg_event_log *events;             /* borrowed */
};

typedef struct vg_api vg_api;

/* The group of this name; VG_E_NOT_FOUND: there is none. */
int vg_api_find_group(const char *name, gid_t *ret, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Listens and serves; the backend must have a view already. VG_E_CONFLICT if somebody listens on
 * the socket or it is another kind of file, VG_E_INVALID if its path is too long, VG_E_NOT_FOUND
 * for its directory or group, VG_E_IO or VG_E_DENIED, naming the path, if it cannot be made.
 * Signals are blocked in its threads; SIGPIPE is the caller's business. */
vg_api *vg_api_new(const struct vg_api_options *options, GError **err);

/* All but the number of connections; the idle time for connections from now on. */
void vg_api_set_limits(vg_api *api, const struct vg_api_limits *limits);

/* Reads certificate and key again, for connections from then on. On failure those before stay. */
int vg_api_reload_certificate(vg_api *api, GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Ends streams, answers what is being answered (jobs that have not begun: 503), removes the socket.
 * The event log is not listened to any more. Takes as long as the job that runs, and up to half a
 * second for clients that are half-way through a request. NULL is fine. */
void vg_api_free(vg_api *api);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_api, vg_api_free)

/* The worker, for its heartbeat. */
const vg_thread *vg_api_thread(const vg_api *api);

#endif
