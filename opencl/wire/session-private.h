/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of sessions share.
 */
#ifndef VG_OPENCL_WIRE_SESSION_PRIVATE_H
#define VG_OPENCL_WIRE_SESSION_PRIVATE_H

#include <pthread.h>
#include <sys/types.h>

#include "opencl/wire/session.h"

#define SESSION_RAW 65536 /* bytes that are read at a time, unless they are those of large data */

enum session_state {
    SESSION_UP,
    SESSION_DOWN, /* it is without a connection; what has come is not looked at */
    SESSION_OVER, /* for ever; what has come is taken yet */
};

struct session_frame {
    uint64_t taken; /* by the frame's sender, in all */
    uint32_t size;  /* of the bytes that follow */
    uint32_t flags;
};

enum {
    SESSION_LAST = 1, /* the sender ends the session */
};

/* Bytes from the one of number BEGIN to that before END, each at its number's rest. */
struct session_ring {
    unsigned char *bytes; /* VG_WIRE_SESSION_KEPT of them */
    uint64_t begin, end;
};

struct vg_wire_session {
    unsigned char id[VG_WIRE_SESSION_ID];
    int64_t linger; /* ns */
    vg_wire_session_again again;
    void *data;
    struct vg_wire_session *next_of_all; /* of the program */
    pid_t pid;

    pthread_mutex_t lock;
    pthread_cond_t changed; /* broadcast for all that others may wait for */
    pthread_cond_t work;    /* for the session's own thread */
    pthread_t thread;
    enum session_state state;
    const char *why;
    char fault[640];  /* what it may say */
    int fd;           /* -1: none */
    unsigned n_users; /* threads that use it without the lock */
    bool is_reading, is_writing;
    bool is_staying, is_returning, is_closing, is_leaving, has_left;

    /* what is sent: kept from what the other side has taken to what was given here */
    struct session_ring kept;
    uint64_t sent, frame_end; /* of the frame that is being sent */
    uint64_t reached;         /* the furthest end of a frame; the other side has no more */
    struct session_frame out;
    size_t out_left; /* bytes of OUT that are not sent */
    bool is_beating;
    uint64_t n_frames;

    /* what comes */
    struct session_ring came; /* ahead of who takes it */
    uint64_t taken, told;
    struct session_frame in;
    size_t in_has;    /* bytes of IN */
    uint32_t in_left; /* bytes of a frame that have not come */
    unsigned char *raw;

    /* in ns */
    int64_t heard, broken, begun, went_on;
    uint64_t went_to; /* bytes that had been taken by both sides when it went on */
    int next;         /* another connection; -1: none */
    uint64_t next_taken;
    struct vg_wire_session_told *told_of; /* or NULL */
};

/* All with the lock, which those that wait let go of. */

/* Returns for how many ns it may be without a connection. */
int64_t vg_wire_session_most(const struct vg_wire_session *session);

/* The connection is broken. */
void vg_wire_session_down(struct vg_wire_session *session);

/* There will be no other one. WHY may be NULL. */
void vg_wire_session_over(struct vg_wire_session *session, const char *why);

/* Sends what can be sent at once. False: not all could be, or somebody else does it. */
bool vg_wire_session_push(struct vg_wire_session *session);

/* Waits until all is sent, or the session is not up. */
void vg_wire_session_flush(struct vg_wire_session *session);

/* Takes what has come, if nobody else is about to. */
void vg_wire_session_look(struct vg_wire_session *session);

/* Tells the other side that it is over, if that can be done at once. */
void vg_wire_session_leave(struct vg_wire_session *session);

/* Waits for CONDITION up to NS. */
void vg_wire_session_sleep(struct vg_wire_session *session, pthread_cond_t *condition, int64_t ns);

/* Of the session's own thread. */
void *vg_wire_session_run(void *session);

/* A program that ends leaves its sessions that are listed. */
void vg_wire_session_list(struct vg_wire_session *session);
void vg_wire_session_unlist(const struct vg_wire_session *session);

#endif
