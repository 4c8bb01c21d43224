/* SPDX-License-Identifier: Apache-2.0
 *
 * The transport between a program's library and a proxy: ordered bytes in both directions and, if
 * the two share memory, areas in it for data, which messages then only refer to. A link has no
 * lock: one thread may send while another receives.
 *
 * An ADDRESS is one of:
 *
 * - the path of a unix socket, whose two sides share memory;
 * - `stream:` and such a path, if everything must go through the socket;
 * - an address of another machine (address.h). The token in the file VGPU_OPENCL_TOKEN is
 *   presented there, and the connection may be interrupted (session.h). A separate thread encrypts
 *   traffic to a tls address (tls.h).
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
    int fd;                          /* -1 if it has a session */
    int limit_ms;                    /* limit for sending through FD; less than 1 if none */
    struct vg_wire_shared *shared;   /* NULL if all bytes go through FD, or: */
    struct vg_wire_session *session; /* of links to another machine; otherwise NULL */
    struct vg_wire_way *way;         /* used by the program's side to reconnect */
    atomic_bool is_shut;             /* permanently, by this side */
    bool is_inherited; /* it belongs to the program that this process was forked from */
};

/* Sets the file whose token is presented if no environment variable names another. PATH is not
 * copied. */
void vg_wire_link_set_token(const char *path);

/* As VG_WIRE_REFUSAL_MAGIC, for a client that returns to a session that has ended, if it supports
 * this. */
#define VG_WIRE_ENDED_MAGIC UINT64_C(0x31444E4554504756) /* "VGPTEND1" */

/* Sent by the proxy's side to a refused client, instead of a hello or a welcome. */
struct vg_wire_refusal {
    uint64_t magic;
    char why[VG_WIRE_REFUSAL_MAX];
};

/* Connects to the proxy at ADDRESS. Returns false with errno, ETIMEDOUT if the proxy does not
 * answer.
 *
 * At first, an operation that takes longer than VG_WIRE_OPEN_S seconds breaks the link, as a proxy
 * may accept connections and then hang. After vg_wire_link_return(), while the program's state
 * also exists elsewhere, the limits are VG_WIRE_RETURN_S for an answer and VG_WIRE_OPEN_S without
 * a connection. After vg_wire_link_stay(), operations that can still complete have no limit. */
#define VG_WIRE_OPEN_S   30
#define VG_WIRE_RETURN_S 300
bool vg_wire_link_open(struct vg_wire_link *link, const char *address);
void vg_wire_link_return(struct vg_wire_link *link);
void vg_wire_link_stay(struct vg_wire_link *link);

/* Options for a client that connects. */
struct vg_wire_offer {
    size_t staging; /* bytes of shared memory for data, if the client wants shared memory */
    const unsigned char *id; /* of a new session */
    unsigned linger_s;       /* how long the session outlives its connection */
};

/* Opens a link at the proxy's side over FD, which it takes over. ARRIVAL was received on FD and
 * admitted. Returns false with errno on failure. */
struct vg_wire_arrival;
bool vg_wire_link_take(struct vg_wire_link *link, int fd, const struct vg_wire_arrival *arrival,
                       const struct vg_wire_offer *offer);

/* Returns whether the link is broken or seems to be, whether or not it may recover. */
bool vg_wire_link_is_cut(const struct vg_wire_link *link);

/* Returns whether the link has ended because the program exited. */
bool vg_wire_link_has_left(const struct vg_wire_link *link);

/* Returns why the link is permanently broken, or NULL if no more is known. */
const char *vg_wire_link_why(const struct vg_wire_link *link);

/* Ends the link for both sides and wakes threads that send or receive. From then on nothing is
 * sent or received, not even data that the other side sent before. Any thread, any number of
 * times. */
void vg_wire_link_shut(struct vg_wire_link *link);

/* In a process forked from the link's process: never sends, receives or ends anything again. */
void vg_wire_link_inherit(struct vg_wire_link *link);

/* Returns whether nothing more will arrive after the bytes already received, because the other
 * side has ended the link or will not return. Any thread. */
bool vg_wire_link_is_over(const struct vg_wire_link *link);

/* Returns whether this side has ended the link. Any thread. */
bool vg_wire_link_is_shut(const struct vg_wire_link *link);

/* Frees the link. From then on, no thread may use it or any of its areas. */
void vg_wire_link_close(struct vg_wire_link *link);

/* Sends the N PARTS, which are modified. HELP, which may be NULL, is called whenever the other
 * side sends instead of receiving, and takes the available data. Returns false if the link is
 * broken. */
bool vg_wire_link_send(struct vg_wire_link *link, struct iovec *parts, int n,
                       void (*help)(void *data), void *data);

/* Waits up to MS milliseconds until the data sent last have reached the other side. For use before
 * this process ends. */
void vg_wire_link_finish(struct vg_wire_link *link, int ms);

/* Sends up to SIZE bytes, but only as many as possible without blocking. */
void vg_wire_link_offer(struct vg_wire_link *link, const void *bytes, size_t size);

/* Receives SIZE bytes. Returns false if the link is broken or has ended. */
bool vg_wire_link_receive(struct vg_wire_link *link, void *to, size_t size);

/* Waits up to TIMEOUT_MS milliseconds for data to receive. */
bool vg_wire_link_wait(const struct vg_wire_link *link, int timeout_ms);

/* Returns the number of processors that this process may use. */
unsigned vg_wire_link_processors(void);

/* ---- areas of the shared memory ---- */

/* The program's side, one thread at a time. Returns an area of SIZE bytes, which the caller owns,
 * or NULL if no area is free or there is no shared memory. */
unsigned char *vg_wire_link_stage(struct vg_wire_link *link, size_t size);

/* Returns the position of AREA for the other side. The area becomes free when that side releases
 * it. */
uint64_t vg_wire_link_lend(struct vg_wire_link *link, const unsigned char *area);

/* Returns the position of AREA for the other side. The caller still owns the area. */
uint64_t vg_wire_link_where(const struct vg_wire_link *link, const unsigned char *area);

void vg_wire_link_unstage(struct vg_wire_link *link, const unsigned char *area);

/* The proxy's side, any thread. Returns the SIZE bytes at a position sent by the other side, or
 * NULL if it is not valid. The contents may change at any time. */
unsigned char *vg_wire_link_area(const struct vg_wire_link *link, uint64_t at, size_t size);

/* The proxy's side. Returns the start of all areas and their *SIZE in bytes. Areas at the start
 * are used first. Returns NULL and 0 if there is no shared memory. */
unsigned char *vg_wire_link_staging(const struct vg_wire_link *link, size_t *size);

/* Returns an area to the other side. Returns false if POINTER is not in an area. */
bool vg_wire_link_leave(const struct vg_wire_link *link, const void *pointer);

#endif
