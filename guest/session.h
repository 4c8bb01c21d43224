/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides how the agent answers each line, and stores the state in between: one preparing or
 * resuming request at a time, its answer, and whether the guest has its GPUs. No I/O, no clock;
 * the caller sends, works and queries. Belongs to one thread.
 */
#ifndef VG_GUEST_SESSION_H
#define VG_GUEST_SESSION_H

#include <stdbool.h>
#include <stddef.h>

#include <json-c/json.h>

#include "guest/request.h"

enum vg_guest_state {
    /* It has had no request since the agent started. */
    VG_GUEST_IDLE,
    VG_GUEST_PREPARED,
    VG_GUEST_RESUMED,
    /* A request could be neither completed nor undone. */
    VG_GUEST_FAILED,
    VG_GUEST_STATE_MAX
};

/* The outcomes of an order or a status request. */
enum vg_guest_end {
    VG_GUEST_END_DONE,
    /* It failed without any change. */
    VG_GUEST_END_UNTOUCHED,
    /* It failed; every change is undone, and the guest has its GPUs. */
    VG_GUEST_END_UNDONE,
    VG_GUEST_END_BROKEN,
};

/* An order to a worker process. */
struct vg_guest_order {
    struct vg_guest_request request;
    /* The devices are already in the wanted state, as far as is known: verify that, but do not run
     * providers again. */
    bool already;
    /* The state that the last preparing kept for the resuming, or NULL. Borrowed. */
    json_object *kept;
    /* For a status request: the session's state, and the id of the request in progress, or 0. */
    const char *state;
    int64_t running;
};

struct vg_guest_session_ops {
    /* Sends a line, which has no newline. */
    void (*send)(void *user, const char *line);
    /* Start a process; vg_guest_session_ended() and _looked() report its end. Return 0, or -1. */
    int (*work)(void *user, const struct vg_guest_order *order);
    int (*look)(void *user, const struct vg_guest_order *order);
    void (*cancel)(void *user);
    /* Stores the place where OpenCL programs find a GPU; empty for none. Returns 0, or an errno. */
    int (*note_proxy)(void *user, const char *at, const char *token, bool *ret_changed);
};

struct vg_guest_session {
    const struct vg_guest_session_ops *ops;
    void *user;
    /* The guest's boot id, or NULL. */
    char *boot_id;
    /* The version that was agreed on; 0 before the hello. */
    int version;
    enum vg_guest_state state;
    /* The request that led to this state. */
    struct vg_guest_request devices_of;
    bool working, looking;
    struct vg_guest_request running, look;
    char *last_progress;
    /* The request that ended last; its id is 0 before the first. */
    struct vg_guest_request ended;
    char *answer;
    json_object *kept;
};

void vg_guest_session_init(struct vg_guest_session *session, const struct vg_guest_session_ops *ops,
                           void *user);
void vg_guest_session_clear(struct vg_guest_session *session);

/* Takes a line from the host, as a vg_guest_line_fn. */
void vg_guest_session_line(void *session, const char *text, size_t size);

/* Forgets the agreement with a host that has disconnected. The work on its order continues. */
void vg_guest_session_hangup(struct vg_guest_session *session);

/* Process the lines that a worker has for the host. */
void vg_guest_session_progress(struct vg_guest_session *session, const char *line);
/* Repeats the last progress, so that the host sees that the agent is alive. */
void vg_guest_session_beat(struct vg_guest_session *session);
void vg_guest_session_ended(struct vg_guest_session *session, enum vg_guest_end end,
                            const char *line);
void vg_guest_session_looked(struct vg_guest_session *session, const char *line);
/* Takes the state that preparing keeps, as JSON; at most once for each order. */
void vg_guest_session_keep(struct vg_guest_session *session, const char *json);

/* Returns "preparing", "resuming", or the name of the state. */
const char *vg_guest_session_state_word(const struct vg_guest_session *session);

#endif
