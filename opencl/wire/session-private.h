/* SPDX-License-Identifier: Apache-2.0
 *
 * Definitions shared by the files of sessions.
 */
#ifndef VG_OPENCL_WIRE_SESSION_PRIVATE_H
#define VG_OPENCL_WIRE_SESSION_PRIVATE_H

#include <pthread.h>
#include <sys/types.h>

#include "opencl/wire/session.h"

#define SESSION_RAW 65536 /* size of a read, except for large data */

enum session_state {
    SESSION_UP,
    SESSION_DOWN, /* no connection; received bytes are not processed */
    SESSION_OVER, /* permanently; bytes already received can still be taken */
};

struct session_frame {
    uint64_t taken; /* total bytes that the frame's sender has taken */
    uint32_t size;  /* of the payload */
    uint32_t flags;
};

enum {
    SESSION_LAST = 1, /* the sender ends the session */
};

/* The bytes numbered BEGIN to END - 1, each stored at its number modulo the size. */
struct session_ring {
    unsigned char *bytes; /* VG_WIRE_SESSION_KEPT of them */
    uint64_t begin, end;
};

struct vg_wire_session {
    unsigned char id[VG_WIRE_SESSION_ID];
    int64_t linger; /* ns */
    vg_wire_session_again again;
    void *data;
    struct vg_wire_session *next_of_all; /* list of the program's sessions */
    pid_t pid;

    pthread_mutex_t lock;
    pthread_cond_t changed; /* broadcast for every change that threads may wait for */
    pthread_cond_t work;    /* for the session's thread */
    pthread_t thread;
    enum session_state state;
    const char *why;
    char fault[640];  /* storage for `why` */
    int fd;           /* -1 if not connected */
    unsigned n_users; /* threads that use FD without the lock */
    bool is_reading, is_writing;
    bool is_staying, is_returning, is_closing, is_leaving, has_left;

    /* sending: kept are the bytes from the first that the other side has not taken */
    struct session_ring kept;
    uint64_t sent, frame_end; /* of the current frame */
    uint64_t reached; /* the furthest end of a frame; the other side has no bytes beyond it */
    struct session_frame out;
    size_t out_left; /* bytes of OUT not sent yet */
    bool is_beating;
    uint64_t n_frames;

    /* receiving */
    struct session_ring came; /* bytes not taken by the caller yet */
    uint64_t taken, told;
    struct session_frame in;
    size_t in_has;    /* bytes of IN received */
    uint32_t in_left; /* payload bytes of the frame not received yet */
    unsigned char *raw;

    /* times in ns */
    int64_t heard, broken, begun, went_on;
    uint64_t went_to; /* total bytes taken by both sides when it last resumed */
    int next;         /* a new connection; -1 if none */
    uint64_t next_taken;
    struct vg_wire_session_state *told_of; /* may be NULL */
};

/* All of these functions are called with the lock held. Those that wait release it during the wait.
 */

/* Returns for how many ns the session may be without a connection. */
int64_t vg_wire_session_most(const struct vg_wire_session *session);

/* Marks the connection as broken. */
void vg_wire_session_down(struct vg_wire_session *session);

/* Ends the session permanently. WHY may be NULL. */
void vg_wire_session_over(struct vg_wire_session *session, const char *why);

/* Sends what can be sent without blocking. Returns false if data remain or another thread is
 * sending. */
bool vg_wire_session_push(struct vg_wire_session *session);

/* Waits until everything is sent or the session is not up. */
void vg_wire_session_flush(struct vg_wire_session *session);

/* Processes what has arrived, unless another thread is about to do so. */
void vg_wire_session_look(struct vg_wire_session *session);

/* Reports the end of the session to the other side if that does not block. */
void vg_wire_session_leave(struct vg_wire_session *session);

/* Waits for CONDITION for up to NS. */
void vg_wire_session_sleep(struct vg_wire_session *session, pthread_cond_t *condition, int64_t ns);

/* The main function of the session's thread. */
void *vg_wire_session_run(void *session);

/* A program that exits closes its listed sessions. */
void vg_wire_session_list(struct vg_wire_session *session);
void vg_wire_session_unlist(const struct vg_wire_session *session);

#endif
