/* SPDX-License-Identifier: Apache-2.0
 *
 * One request and its answer, as handlers see them: without a word of libmicrohttpd. A request
 * belongs to the thread that handles it: one of `http`, or, while its job runs, the worker.
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

#define VG_RETRY_S       1 /* of a 503 */
#define VG_LIMIT_DEFAULT 1000
#define VG_LIMIT_MAX     10000
#define VG_MARKER_MAX    2048

struct vg_route;
struct vg_request;
struct vg_wait;

/* What is to be sent. Zeroed: nothing yet (status 0). */
struct vg_answer {
    unsigned status;
    const char *type;  /* NULL: no body */
    char *body;        /* owned, unless view is set */
    const char *fixed; /* or: lives as long as the program */
    size_t size;
    vg_view *view; /* owned: what body belongs to */
    char etag[VG_ETAG_LEN];
    char *location; /* owned */
    char *allow;    /* owned */
    int retry_after_s;
    bool challenge; /* 401: by what he may show who he is */
    bool close;     /* the connection, after this answer */
};

/* The process on the other side of the socket. */
struct vg_peer {
    uid_t uid;
    gid_t gid;
    pid_t pid;
};

/* Runs on a worker and fills request->answer. */
typedef void vg_job(struct vg_request *request);

/* Workers, one thread each. A job may ask another vgpud only for what a lane before its own does
 * there, or two that ask each other would wait for each other; and neither libvirt nor a guest
 * holds up what only reads. */
enum vg_lane {
    VG_LANE_WORK, /* "api-work": the store, the journal */
    VG_LANE_KEEP, /* "api-keep": libvirt of this host alone; moves that this vgpud runs */
    VG_LANE_MOVE, /* "api-move": what begins a move here: libvirt of two hosts, the guest */
    VG_LANE_ASK,  /* "api-ask": what may be up to other vgpuds */
    VG_LANE_MAX
};

struct vg_request {
    vg_api *api;
    const struct vg_backend *backend; /* of the api */
    char *uri;                        /* raw: path and query */
    const char *method;
    char *id; /* decoded {id} of the path, or NULL */
    const struct vg_route *route;
    enum vg_role role; /* that the route wants */
    char request_id[VG_REQUEST_ID_LEN];
    bool openstack_id;   /* it came as X-Openstack-Request-Id */
    struct vg_peer peer; /* of the unix socket */
    struct vg_identity identity;
    char *token, *subject; /* what over TCP says so, owned: one of them, or none */
    const char *origin;    /* "unix", or the client's address; lives as long as the connection */
    bool audited;          /* it is in the audit, or was tried */
    char *object;          /* what a write was about, for the audit; owned; NULL: the id */
    struct vg_query query;
    GByteArray *body; /* NULL: none yet */
    char *if_none_match;
    char *last_event_id;
    char *idempotency_key;
    struct vg_answer answer;
    /* Of handlers that go on after a pause. */
    vg_job *job;
    enum vg_lane lane; /* that runs the job */
    void *job_data;
    GDestroyNotify job_data_free;
    struct vg_wait *wait; /* owned: a poll of events */
    bool streaming;       /* answer with the stream `wait`, which the response then owns */
};

/* Fills request->answer, sets request->job (and job_data), or begins to wait. */
typedef void vg_handler(struct vg_request *request);

void vg_answer_clear(struct vg_answer *answer);

/* problem: of enum vg_problem or vg_error_code. */
void vg_answer_problem(struct vg_request *request, int problem, const char *fmt, ...)
    G_GNUC_PRINTF(3, 4);
void vg_answer_error(struct vg_request *request, GError *take_err);

/* A JSON document. */
void vg_answer_json(struct vg_request *request, unsigned status, json_object *take_object);

/* The text of one; 200. */
void vg_answer_json_text(struct vg_request *request, char *take_text);

/* Text that lives as long as the program. */
void vg_answer_fixed(struct vg_request *request, const char *type, const char *text, size_t size);

/* Gives the answer that is set an ETag. It becomes a 304 if the client has what that names; its
 * body stays, for the length that goes out without it (RFC 9110, 8.6). */
void vg_answer_etag(struct vg_request *request, const char *etag);
void vg_view_etag(const vg_view *view, char ret[VG_ETAG_LEN]);

/* A kept document of a view; takes the reference. */
void vg_answer_view(struct vg_request *request, vg_view *take_view, enum vg_view_body body);

/* "req-" and a random UUID. */
void vg_request_id_make(char ret[VG_REQUEST_ID_LEN]);

#endif
