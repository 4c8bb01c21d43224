/* SPDX-License-Identifier: Apache-2.0
 *
 * A stream of bytes in each direction that survives the loss of its connection. Both sides number
 * the bytes and keep those that the other side has not taken yet. After a reconnect they send them
 * again, starting with the first that the other side has not received. Thus no byte is lost or
 * duplicated.
 *
 * On the connection, bytes are sent in frames. Each frame says how many bytes its sender has taken.
 * A side has at most VG_WIRE_SESSION_KEPT bytes in flight. When that limit is reached, it waits,
 * and receives in the meantime. A side with nothing to send sends an empty frame each second as a
 * heartbeat.
 *
 * A connection counts as broken on an error. On the program's side, it also counts as broken after
 * VG_WIRE_SESSION_SILENT_S without data, or after VG_WIRE_OPEN_S if it cannot be replaced. The
 * program's side then reconnects, and the proxy's side waits for that. Each side ends the session
 * after the number of seconds that the proxy announced.
 */
#ifndef VG_OPENCL_WIRE_SESSION_H
#define VG_OPENCL_WIRE_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define VG_WIRE_SESSION_MAGIC    UINT64_C(0x3153534553504756) /* "VGPSESS1" */
#define VG_WIRE_SESSION_ID       16                           /* bytes; random */
#define VG_WIRE_SESSION_KEPT     (UINT64_C(4) << 20)
#define VG_WIRE_SESSION_SILENT_S 5

/* The first message of the program's side. */
struct vg_wire_session_hello {
    unsigned char id[VG_WIRE_SESSION_ID]; /* zeros for a new session */
    uint64_t taken;                       /* total bytes that this side has taken */
};

/* The answer of the proxy's side. */
struct vg_wire_session_welcome {
    uint64_t magic;
    unsigned char id[VG_WIRE_SESSION_ID]; /* zeros if the session does not exist */
    uint64_t taken;
    uint64_t linger_s; /* how long the proxy waits for a reconnect */
};

struct vg_wire_session;

/* Returns a new connection to the proxy, on which HELLO was sent, and the answer in *WELCOME.
 * Returns -1 with errno on failure: the caller may retry unless that is ESRCH. */
typedef int (*vg_wire_session_again)(void *data, const struct vg_wire_session_hello *hello,
                                     struct vg_wire_session_welcome *welcome);

/* Takes over FD. AGAIN is NULL on the proxy's side. Returns NULL with errno on failure. */
struct vg_wire_session *vg_wire_session_begin(int fd, const struct vg_wire_session_welcome *welcome,
                                              vg_wire_session_again again, void *data);

/* The state of the connection. It can be in memory shared with another process. */
struct vg_wire_session_state {
    _Atomic int64_t broken; /* time of the break by vg_cl_now(); 0 if not broken */
    _Atomic uint64_t n_mended;
};

/* Updates TOLD, which the caller still owns, from now on. */
void vg_wire_session_publish(struct vg_wire_session *session, struct vg_wire_session_state *told);

/* After the first call, the session survives breaks of up to VG_WIRE_OPEN_S, provided that either
 * side takes something every VG_WIRE_RETURN_S. After the second, it survives as long as the proxy
 * waits, and silence has no limit. */
void vg_wire_session_return(struct vg_wire_session *session);
void vg_wire_session_stay(struct vg_wire_session *session);

/* The proxy's side: replaces the connection with FD, which it takes over. TAKEN is the total
 * number of bytes that the other side has taken. */
void vg_wire_session_replace(struct vg_wire_session *session, int fd, uint64_t taken);

/* As the functions of the link. */
bool vg_wire_session_send(struct vg_wire_session *session, const struct iovec *parts, int n,
                          void (*help)(void *data), void *data);
void vg_wire_session_offer(struct vg_wire_session *session, const void *bytes, size_t size);
bool vg_wire_session_receive(struct vg_wire_session *session, void *to, size_t size);
bool vg_wire_session_wait(struct vg_wire_session *session, int timeout_ms);

/* Ends the session for both sides. The other side does not reconnect, and bytes received from it
 * are discarded. */
void vg_wire_session_shut(struct vg_wire_session *session);
void vg_wire_session_close(struct vg_wire_session *session);

/* Returns whether nothing can arrive now because the connection is broken or seems to be. */
bool vg_wire_session_is_cut(struct vg_wire_session *session);

/* Ends the session for both sides after sending the remaining bytes, for up to MS milliseconds.
 * Also takes the bytes that arrive, so that the connection does not end with a reset. */
void vg_wire_session_finish(struct vg_wire_session *session, int ms);

/* Returns whether it has ended. Bytes already received can still be taken. */
bool vg_wire_session_is_over(struct vg_wire_session *session);

/* Returns whether it has ended because the program exits. */
bool vg_wire_session_has_left(struct vg_wire_session *session);

/* Returns why it has ended. Returns NULL if the other side ended it or it has not ended. */
const char *vg_wire_session_why(struct vg_wire_session *session);

#endif
