/* SPDX-License-Identifier: Apache-2.0
 *
 * A stream of bytes in each direction that outlives the connection that it goes over: both sides
 * count the bytes, keep those that the other side has not taken yet, and send them again over the
 * next connection, from where the other side says that it has come to. So nothing of it is lost,
 * and nothing comes twice.
 *
 * On the way the bytes lie in frames, each of which says how many its sender has taken. Nobody has
 * more than VG_WIRE_SESSION_KEPT bytes on the way: who has waits, and takes meanwhile what comes.
 * As long as nothing else is to be said, an empty frame each second says that a side is there.
 *
 * A connection is broken when it says so, or, on the program's side, when nothing has come for
 * VG_WIRE_SESSION_SILENT_S, or VG_WIRE_OPEN_S where there will be no other one. The program's side
 * then makes another one; the proxy's side waits for it. Either gives up after the seconds that the
 * proxy has said.
 */
#ifndef VG_OPENCL_WIRE_SESSION_H
#define VG_OPENCL_WIRE_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define VG_WIRE_SESSION_MAGIC    UINT64_C(0x3153534553504756) /* "VGPSESS1" */
#define VG_WIRE_SESSION_ID       16                           /* bytes, which nobody can guess */
#define VG_WIRE_SESSION_KEPT     (UINT64_C(4) << 20)
#define VG_WIRE_SESSION_SILENT_S 5

/* What the program's side says first. */
struct vg_wire_session_hello {
    unsigned char id[VG_WIRE_SESSION_ID]; /* zeros: a new session */
    uint64_t taken;                       /* bytes that this side has taken */
};

/* What the proxy's side answers. */
struct vg_wire_session_welcome {
    uint64_t magic;
    unsigned char id[VG_WIRE_SESSION_ID]; /* zeros: it knows of no such session */
    uint64_t taken;
    uint64_t linger_s; /* how long it waits for another connection */
};

struct vg_wire_session;

/* Returns another connection to the proxy, over which HELLO was said, and what it answered in
 * *WELCOME; -1, with errno: it may be tried again, unless that is ESRCH. */
typedef int (*vg_wire_session_again)(void *data, const struct vg_wire_session_hello *hello,
                                     struct vg_wire_session_welcome *welcome);

/* FD is the session's from now on. AGAIN is NULL on the proxy's side. NULL, with errno. */
struct vg_wire_session *vg_wire_session_begin(int fd, const struct vg_wire_session_welcome *welcome,
                                              vg_wire_session_again again, void *data);

/* What becomes of the connection, where another process can have it in common. */
struct vg_wire_session_told {
    _Atomic int64_t broken; /* since when it is, by vg_cl_now(); 0: it is not */
    _Atomic uint64_t n_mended;
};

/* Has TOLD, which stays the caller's, told from now on. */
void vg_wire_session_tell(struct vg_wire_session *session, struct vg_wire_session_told *told);

/* From now on it outlives its connection: for VG_WIRE_OPEN_S at most, and if something is taken by
 * either side every VG_WIRE_RETURN_S; after vg_wire_session_stay(), for as long as the proxy waits,
 * and nothing has to come. */
void vg_wire_session_return(struct vg_wire_session *session);
void vg_wire_session_stay(struct vg_wire_session *session);

/* Of the proxy's side: FD, which is the session's from now on, is another connection, whose other
 * side has taken so much. */
void vg_wire_session_replace(struct vg_wire_session *session, int fd, uint64_t taken);

/* As those of the link. */
bool vg_wire_session_send(struct vg_wire_session *session, const struct iovec *parts, int n,
                          void (*help)(void *data), void *data);
void vg_wire_session_offer(struct vg_wire_session *session, const void *bytes, size_t size);
bool vg_wire_session_receive(struct vg_wire_session *session, void *to, size_t size);
bool vg_wire_session_wait(struct vg_wire_session *session, int timeout_ms);

/* Ends it for both sides: the other one does not wait for another connection, and what has come
 * from it is not taken any more. */
void vg_wire_session_shut(struct vg_wire_session *session);
void vg_wire_session_close(struct vg_wire_session *session);

/* Whether nothing comes now, as the connection is broken, or seems to be. */
bool vg_wire_session_is_cut(struct vg_wire_session *session);

/* Ends it for both sides once what was given here is sent, for which it waits up to MS
 * milliseconds, and takes what has come, so that the connection does not end with a reset. */
void vg_wire_session_finish(struct vg_wire_session *session, int ms);

/* Whether it is over; what has come may be taken yet. */
bool vg_wire_session_is_over(struct vg_wire_session *session);

/* Whether it is over because the program ends. */
bool vg_wire_session_has_left(struct vg_wire_session *session);

/* Returns why it is over; NULL: the other side has ended it, or it is not over. */
const char *vg_wire_session_why(struct vg_wire_session *session);

#endif
