/* SPDX-License-Identifier: Apache-2.0
 *
 * The way between a program's library and a proxy, whichever it is: bytes in their order, in both
 * directions at once, and, where both have memory in common, areas of it for data, which the bytes
 * then only name. A link is not locked: one thread may send while another one receives.
 *
 * An ADDRESS is the path of a unix socket, whose two sides have memory in common, or `stream:` and
 * such a path, if all is to go through the socket; or one of another machine (address.h), to which
 * the token in the file VGPU_OPENCL_TOKEN is shown, and the way to which may break for a while
 * (session.h). What goes to a tls address is carried by a thread of its own (tls.h).
 */
#ifndef VG_OPENCL_WIRE_LINK_H
#define VG_OPENCL_WIRE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <stdatomic.h>

#include "opencl/wire/session.h"

#define VG_WIRE_REFUSAL_MAGIC UINT64_C(0x3153554645525056) /* "VPREFUS1" */
#define VG_WIRE_REFUSAL_MAX   184                          /* bytes */

struct vg_wire_shared;
struct vg_wire_way;

struct vg_wire_link {
    int fd;                          /* -1: it has a session */
    int limit_ms;                    /* for what is sent by FD; less than 1: none */
    struct vg_wire_shared *shared;   /* NULL: all bytes go through FD, or: */
    struct vg_wire_session *session; /* of links to another machine; NULL: none */
    struct vg_wire_way *way;         /* by which the program's side gets there again */
    atomic_bool is_shut;             /* by this side, for good */
    bool is_inherited;               /* it is the program's that this process was forked from */
};

/* Has the token in the file PATH shown, where no variable names another one. PATH is kept. */
void vg_wire_link_set_token(const char *path);

/* The same to whom comes back to a session that has ended, and says that it understands this. */
#define VG_WIRE_ENDED_MAGIC UINT64_C(0x31444E4554504756) /* "VGPTEND1" */

/* What the proxy's side says, instead of a hello or a welcome, to whom it refuses. */
struct vg_wire_refusal {
    uint64_t magic;
    char why[VG_WIRE_REFUSAL_MAX];
};

/* Connects to the proxy at ADDRESS. False, with errno, which is ETIMEDOUT if it does not answer.
 * What takes longer than VG_WIRE_OPEN_S seconds breaks the link, as a proxy may listen and do
 * nothing; after vg_wire_link_return(), what it does not answer for VG_WIRE_RETURN_S, or has no
 * connection for VG_WIRE_OPEN_S, as the program's state is not its alone yet; and after
 * vg_wire_link_stay(), nothing that may go on. */
#define VG_WIRE_OPEN_S   30
#define VG_WIRE_RETURN_S 300
bool vg_wire_link_open(struct vg_wire_link *link, const char *address);
void vg_wire_link_return(struct vg_wire_link *link);
void vg_wire_link_stay(struct vg_wire_link *link);

/* What those get that connect. */
struct vg_wire_offer {
    size_t staging;          /* bytes of memory for data, if they want memory in common */
    const unsigned char *id; /* of a new session */
    unsigned linger_s;       /* that it outlives its connection */
};

/* Begins a link at the proxy's side, over FD, which is the link's from now on, and on which ARRIVAL
 * was said by one who may come. False, with errno. */
struct vg_wire_arrival;
bool vg_wire_link_take(struct vg_wire_link *link, int fd, const struct vg_wire_arrival *arrival,
                       const struct vg_wire_offer *offer);

/* Whether the link is broken, or seems to be, and may be mended yet, or not. */
bool vg_wire_link_is_cut(const struct vg_wire_link *link);

/* Whether the link is at its end because the program is. */
bool vg_wire_link_has_left(const struct vg_wire_link *link);

/* Returns why the link is broken for good; NULL: there is nothing more to say. */
const char *vg_wire_link_why(const struct vg_wire_link *link);

/* Ends the link for both sides, which wakes those that send and receive. From then on nothing is
 * sent, and nothing is received either, also of what the other side has sent before. Any thread,
 * any number of times. */
void vg_wire_link_shut(struct vg_wire_link *link);

/* In a process that was forked from the link's: nothing is sent, received or ended any more. */
void vg_wire_link_inherit(struct vg_wire_link *link);

/* Whether nothing will come any more once what has come was taken, as the other side has ended it
 * or will not come back. Any thread. */
bool vg_wire_link_is_over(const struct vg_wire_link *link);

/* Whether this side has ended the link. Any thread. */
bool vg_wire_link_is_shut(const struct vg_wire_link *link);

/* Nobody uses it, or an area of it, any more. */
void vg_wire_link_close(struct vg_wire_link *link);

/* Sends all PARTS, N of them, which are changed. HELP, which may be NULL, is called whenever the
 * other side sends instead of receiving; it takes what there is. False: the link is broken. */
bool vg_wire_link_send(struct vg_wire_link *link, struct iovec *parts, int n,
                       void (*help)(void *data), void *data);

/* Has what was offered last reach the other side, where that needs time: for up to MS milliseconds,
 * before this process ends. */
void vg_wire_link_finish(struct vg_wire_link *link, int ms);

/* Sends SIZE bytes if it can be done at once, and else none, or a part. */
void vg_wire_link_offer(struct vg_wire_link *link, const void *bytes, size_t size);

/* Receives SIZE bytes. False: the link is broken, or at its end. */
bool vg_wire_link_receive(struct vg_wire_link *link, void *to, size_t size);

/* Waits for something to receive, up to TIMEOUT_MS milliseconds. */
bool vg_wire_link_wait(const struct vg_wire_link *link, int timeout_ms);

/* Returns how many processors this process may use. */
unsigned vg_wire_link_processors(void);

/* ---- areas of the memory in common ---- */

/* Of the program's side, by one thread at a time. Returns an area of SIZE bytes, which is the
 * caller's; NULL: none is free, or there is no such memory. */
unsigned char *vg_wire_link_stage(struct vg_wire_link *link, size_t size);

/* Says where AREA is, for the other side; it returns by itself when that side has left it. */
uint64_t vg_wire_link_lend(struct vg_wire_link *link, const unsigned char *area);

/* Says where AREA is, for the other side; it stays the caller's. */
uint64_t vg_wire_link_where(const struct vg_wire_link *link, const unsigned char *area);

void vg_wire_link_unstage(struct vg_wire_link *link, const unsigned char *area);

/* Of the proxy's side, by any thread. Returns where the other side says that SIZE bytes are; NULL:
 * they are not. What they hold may change at any time. */
unsigned char *vg_wire_link_area(const struct vg_wire_link *link, uint64_t at, size_t size);

/* Of the proxy's side. Returns where all areas are, those that are used first at its beginning, and
 * their *SIZE in bytes; NULL, and 0: there is no such memory. */
unsigned char *vg_wire_link_staging(const struct vg_wire_link *link, size_t *size);

/* Leaves an area, which is the other side's again. False: POINTER is not in one. */
bool vg_wire_link_leave(const struct vg_wire_link *link, const void *pointer);

#endif
