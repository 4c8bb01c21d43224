/* SPDX-License-Identifier: Apache-2.0
 *
 * A request and its answer as handlers see them, independent of libmicrohttpd. A request belongs to
 * the thread that handles it: an HTTP thread, or the worker while its job runs.
 */
#ifndef VG_API_REQUEST_H
#define VG_API_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <glib.h>
#include <json-c/json.h>

#include "api/api.h"
#include "api/backend.h"
#include "api/doc.h"
#include "api/parse.h"
#include "api/problem.h"
#include "model/identity.h"

#define VG_REQUEST_ID_LEN 41 /* "req-", a UUID and a NUL */
#define VG_ETAG_LEN       96

#define VG_RETRY_S       1 /* Retry-After of a 503 */
#define VG_LIMIT_DEFAULT 1000
#define VG_LIMIT_MAX     10000
#define VG_MARKER_MAX    2048

struct vg_route;
struct vg_request;
struct vg_wait;

/* The answer to send. All zero (status 0) until it is set. */
struct vg_answer {
    unsigned status;
    const char *type;  /* NULL without body */
    char *body;        /* owned, unless view is set */
    const char *fixed; /* or a static text */
    size_t size;
    vg_view *view; /* owned: the view that body belongs to */
    char etag[VG_ETAG_LEN];
    char *location; /* owned */
    char *allow;    /* owned */
    int retry_after_s;
    bool challenge; /* 401: add WWW-Authenticate */
    bool close;     /* close the connection after this answer */
    bool page;      /* a compressed file of the page */
};

/* The process at the other end of the unix socket. */
struct vg_peer {
    uid_t uid;
    gid_t gid;
    pid_t pid;
};

/* A job: runs on a worker and fills request->answer. */
typedef void vg_job(struct vg_request *request);

/* The workers. The requests that a job sends to another vgpud may only start jobs in earlier lanes
 * there; otherwise, two vgpuds that query each other would deadlock. Neither libvirt nor a guest
 * delays requests that only read. Requests that other vgpuds need to continue or end their moves
 * wait for no host. */
enum vg_lane {
    VG_LANE_WORK, /* "api-work": the store, the journal */
    VG_LANE_KEEP, /* "api-keep": existing reservations, cancellations */
    VG_LANE_HERE, /* "api-here": only this host's libvirt */
    VG_LANE_MOVE, /* "api-move": starting moves here: libvirt of two hosts, the guest */
    VG_LANE_ASK,  /* "api-ask": queries to other vgpuds */
    VG_LANE_MAX
};

struct vg_request {
    vg_api *api;
    const struct vg_backend *backend; /* same as in api */
    char *uri;                        /* path and query, raw */
    const char *method;
    char *id; /* decoded {id} of the path, or NULL */
    const struct vg_route *route;
    enum vg_role role; /* role that the route requires */
    char request_id[VG_REQUEST_ID_LEN];
    bool openstack_id; /* received as X-Openstack-Request-Id */
    /* Returns whether the client of this request is still waiting for its answer. A client that has
     * closed its side of the connection is not. Any thread, until the answer has been sent. */
    bool (*waits)(const void *request);
    struct vg_peer peer; /* peer on the unix socket */
    struct vg_identity identity;
    char *token, *subject; /* proof of identity over TCP, owned; at most one of them */
    const char *origin;    /* "unix", or the client's address; valid as long as the connection */
    bool audited;          /* an audit entry was written, or attempted */
    char *object;          /* object of a write, for the audit log; owned; NULL for the id */
    struct vg_query query;
    GByteArray *body; /* NULL before it arrives */
    char *if_none_match;
    char *last_event_id;
    char *idempotency_key;
    char *person; /* the user for whom another vgpud sends the request, from a header field; or NULL
                   */
    char *forecast; /* the header field with the prediction for a move, or NULL */
    struct vg_answer answer;
    /* For handlers that continue after a pause. */
    vg_job *job;
    enum vg_lane lane;             /* lane for the job */
    char *hosts[VG_BACKEND_HOSTS]; /* hosts of the job, owned, or NULL; "" for this one */
    int64_t begin_by_ns;           /* CLOCK_MONOTONIC, latest start of a waiting job */
    void *job_data;
    GDestroyNotify job_data_free;
    struct vg_wait *wait; /* owned: a poll for events */
    bool streaming;       /* answer with the stream `wait`, which the response then owns */
};

/* A handler: fills request->answer, sets request->job (and job_data), or starts a wait. */
typedef void vg_handler(struct vg_request *request);

void vg_answer_clear(struct vg_answer *answer);

/* Sets an answer that the client is unknown. */
void vg_answer_nobody(struct vg_request *request, enum vg_refusal refusal, const char *why);

/* Sets an answer about a problem, from enum vg_problem or vg_error_code. */
void vg_answer_problem(struct vg_request *request, int problem, const char *fmt, ...)
    G_GNUC_PRINTF(3, 4);
void vg_answer_error(struct vg_request *request, GError *take_err);

/* Answers with a JSON document. */
void vg_answer_json(struct vg_request *request, unsigned status, json_object *take_object);

/* Answers 200 with the text of a JSON document. */
void vg_answer_json_text(struct vg_request *request, char *take_text);

/* Answers 200 with a static text. */
void vg_answer_fixed(struct vg_request *request, const char *type, const char *text, size_t size);

/* Adds an ETag to the answer. If the client has that version, the answer becomes a 304. Its body is
 * kept to determine the length, which is sent without it (RFC 9110, 8.6). */
void vg_answer_etag(struct vg_request *request, const char *etag);
void vg_view_etag(const vg_view *view, char ret[VG_ETAG_LEN]);

/* Answers with a stored document of a view; takes the reference. */
void vg_answer_view(struct vg_request *request, vg_view *take_view, enum vg_view_body body);

/* Replaces the OpenStack name of a VM of this host with its id. Other names are kept, because peers
 * may know them. Fails with VG_E_CONFLICT if the name is ambiguous. */
int vg_request_name_vm(const struct vg_request *request, char **name, GError **err);

/* Logs that a write has been accepted, and queues its job for this host in a lane. data is freed
 * with free_data after the job. */
void vg_request_accept_write(struct vg_request *request, void *take_data, GDestroyNotify free_data,
                             enum vg_lane lane, vg_job *job);

/* Generates "req-" and a random UUID. */
void vg_request_id_make(char ret[VG_REQUEST_ID_LEN]);

#endif
