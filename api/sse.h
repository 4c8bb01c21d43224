/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/events: streams, and polls that wait for events.
 */
#ifndef VG_API_SSE_H
#define VG_API_SSE_H

#include "api/server.h"

struct MHD_Connection;

#define VG_HEARTBEAT_NS (15 * VG_NS_PER_S)

/* A client that is waiting for events: a stream, or a poll. */
struct vg_wait {
    vg_api *api;
    struct MHD_Connection *connection;
    bool suspended;
    int64_t deadline_ns;   /* monotonic: time of the next heartbeat, or end of the poll */
    uint64_t at;           /* number of the last event */
    uint64_t lost;         /* poll: events that were dropped before they could be sent */
    char *types;           /* types of events; NULL for all */
    char *token, *subject; /* copied from the request, owned; may be NULL */
    char *user;            /* the name of its identity, owned */
    enum vg_role role;     /* role that its route requires */
    GString *out;          /* stream: text to send ... */
    size_t sent;           /* ... from this offset on */
    GList link;            /* in api->waits */
};

void vg_wait_free(void *wait); /* NULL is fine */

/* Writes the next part into the buffer and returns its length in bytes, 0 if the stream is
 * suspended, or -1 at its end. */
ssize_t vg_stream_read(struct vg_wait *wait, char *buffer, size_t max);

/* Resumes all waits, because there is an event, or because the API is ending. */
void vg_waits_wake(void *api);

/* Resumes the waits whose deadline has passed, and returns the earliest deadline of the others.
 * With api->lock. */
int64_t vg_waits_tick(vg_api *api, int64_t now_ns);

/* Suspends the poll of a request. Returns false if the daemon is ending, so that the poll must be
 * answered now. */
bool vg_poll_suspend(struct vg_request *request);

/* Fills the answer, or returns false if there is nothing to report yet. */
bool vg_poll_answer(struct vg_request *request, bool force);

#endif
