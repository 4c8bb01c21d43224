/* SPDX-License-Identifier: Apache-2.0
 *
 * The way between a program's library and a proxy, whichever it is: bytes in their order, in both
 * directions at once. A link is not locked: one thread may send while another one receives.
 */
#ifndef VG_OPENCL_WIRE_LINK_H
#define VG_OPENCL_WIRE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

struct vg_wire_link {
    int fd;
};

/* Connects to the proxy at ADDRESS, the path of a unix socket. False, with errno. Until
 * vg_wire_link_stay() is called, what takes longer than VG_WIRE_OPEN_S seconds breaks the link: a
 * proxy may listen and do nothing. */
#define VG_WIRE_OPEN_S 30
bool vg_wire_link_open(struct vg_wire_link *link, const char *address);
void vg_wire_link_stay(struct vg_wire_link *link);

/* For a link that somebody else accepted; FD is the link's from now on. */
void vg_wire_link_take(struct vg_wire_link *link, int fd);

/* Ends the link for both sides, which wakes those that send and receive; once. */
void vg_wire_link_shut(struct vg_wire_link *link);

void vg_wire_link_close(struct vg_wire_link *link);

/* Sends all PARTS, N of them, which are changed. HELP, which may be NULL, is called whenever the
 * other side sends instead of receiving; it takes what there is. False: the link is broken. */
bool vg_wire_link_send(struct vg_wire_link *link, struct iovec *parts, int n,
                       void (*help)(void *data), void *data);

/* Sends SIZE bytes if it can be done at once, and else none, or a part. */
void vg_wire_link_offer(struct vg_wire_link *link, const void *bytes, size_t size);

/* Receives SIZE bytes. False: the link is broken, or at its end. */
bool vg_wire_link_receive(struct vg_wire_link *link, void *to, size_t size);

/* Waits for something to receive, up to TIMEOUT_MS milliseconds; -1: for ever. */
bool vg_wire_link_wait(const struct vg_wire_link *link, int timeout_ms);

#endif
