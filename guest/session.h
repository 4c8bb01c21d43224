/* SPDX-License-Identifier: Apache-2.0
 *
 * What the agent answers to which line, and what it remembers between them: one request of
 * preparing or resuming at a time, its answer, and whether the GPUs are with the guest. No I/O, no
 * clock; the caller sends, works and looks. Belongs to one thread.
 */
#ifndef VG_GUEST_SESSION_H
#define VG_GUEST_SESSION_H

#include <stdbool.h>
#include <stddef.h>

#include <json-c/json.h>

#include "guest/request.h"

/* Bytes of a line to the host, without its newline. */
#define VG_GUEST_ANSWER_MAX 131072

enum vg_guest_state {
    /* Since the agent's start nothing was asked of it. */
    VG_GUEST_IDLE,
    VG_GUEST_PREPARED,
    VG_GUEST_RESUMED,
    /* Something was begun, could not be finished and not be undone. */
    VG_GUEST_FAILED,
    VG_GUEST_STATE_MAX
};

/* How a work or a look ended. */
enum vg_guest_end {
    VG_GUEST_END_DONE,
    /* An error: nothing was begun. */
    VG_GUEST_END_UNTOUCHED,
    /* An error: what was begun is undone, the GPUs are with the guest. */
    VG_GUEST_END_UNDONE,
    VG_GUEST_END_BROKEN,
};

/* One order to whoever works. */
struct vg_guest_order {
    struct vg_guest_request request;
    /* It is as it is asked for, as far as is known: make sure, but do not run what was run. */
    bool already;
    /* What the last preparing kept for the resuming, or NULL. Borrowed. */
    json_object *kept;
    /* Of a look: the session's state, and the id of what is being worked on, or 0. */
    const char *state;
    int64_t running;
};

struct vg_guest_session_ops {
    /* A line without its newline. */
    void (*send)(void *user, const char *line);
    /* Starts; ends are told by vg_guest_session_ended() and _looked(). 0, or -1. */
    int (*work)(void *user, const struct vg_guest_order *order);
    int (*look)(void *user, const struct vg_guest_order *order);
    void (*cancel)(void *user);
};

struct vg_guest_session {
    const struct vg_guest_session_ops *ops;
    void *user;
    /* Read once, or NULL. */
    char *boot_id;
    /* 0 before the hello. */
    int version;
    enum vg_guest_state state;
    /* Whose state it is. */
    struct vg_guest_request devices_of;
    bool working, looking;
    struct vg_guest_request running, look;
    char *last_progress;
    /* The last that ended: id 0 for none. */
    struct vg_guest_request ended;
    char *answer;
    json_object *kept;
};

void vg_guest_session_init(struct vg_guest_session *session, const struct vg_guest_session_ops *ops,
                           void *user);
void vg_guest_session_clear(struct vg_guest_session *session);

/* As vg_guest_line_fn. */
void vg_guest_session_line(void *session, const char *text, size_t size);

/* The host has gone: what is agreed with it is over, what was ordered goes on. */
void vg_guest_session_hangup(struct vg_guest_session *session);

/* The lines that who works has for the host. */
void vg_guest_session_progress(struct vg_guest_session *session, const char *line);
/* The last progress once more, so that the host sees that this is alive. */
void vg_guest_session_beat(struct vg_guest_session *session);
void vg_guest_session_ended(struct vg_guest_session *session, enum vg_guest_end end,
                            const char *line);
void vg_guest_session_looked(struct vg_guest_session *session, const char *line);
/* What preparing keeps; JSON, at most once for each order. */
void vg_guest_session_keep(struct vg_guest_session *session, const char *json);

/* "preparing", "resuming", or the word of the state. */
const char *vg_guest_session_state_word(const struct vg_guest_session *session);

/* An error as a line. message is cleaned. The caller frees it. */
char *vg_guest_error_line(int64_t id, enum vg_guest_code code, const char *message);

/* JSON as a line; takes object. One that is too long becomes an error. */
char *vg_guest_object_line(json_object *object);

#endif
