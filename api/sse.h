/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/events: streams and polls that wait for events.
 */
#ifndef VG_API_SSE_H
#define VG_API_SSE_H

#include "api/server.h"

struct MHD_Connection;

#define VG_HEARTBEAT_NS (15 * VG_NS_PER_S)

/* A client that waits for events: a stream, or a poll. */
struct vg_wait {
    vg_api *api;
    struct MHD_Connection *connection;
    bool suspended;
    int64_t deadline_ns;   /* monotonic: time of the next heartbeat, or end of the poll */
    uint64_t at;           /* number of the last event */
    uint64_t lost;         /* poll: events that were gone before they could be sent */
    char *types;           /* types of events; NULL: all */
    char *token, *subject; /* those of the request, owned; NULL: none */
    char *user;            /* the name of its identity, owned */
    enum vg_role role;     /* role that its route wants */
    GString *out;          /* stream: text to be sent ... */
    size_t sent;           /* ... from here on */
    GList link;            /* in api->waits */
};

void vg_wait_free(void *wait); /* NULL is fine */

/* Writes what is to be sent next into the buffer and returns its bytes; 0: the stream is suspended;
 * -1: it ends. */
ssize_t vg_stream_read(struct vg_wait *wait, char *buffer, size_t max);

/* Resumes all that wait: there is an event, or the end. */
void vg_waits_wake(void *api);

/* Resumes those whose time has come, and returns the earliest deadline of the others. With
 * api->lock. */
int64_t vg_waits_tick(vg_api *api, int64_t now_ns);

/* Suspends the poll of a request. Returns false if the daemon ends, and it must be answered now. */
bool vg_poll_suspend(struct vg_request *request);

/* Fills the answer, or returns false if there is nothing to tell yet. */
bool vg_poll_answer(struct vg_request *request, bool force);

#endif
