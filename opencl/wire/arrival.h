/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program says on a new connection before anything is done for it: how it wants to be
 * served, its token, and which session it comes back to. These few bytes are read as they come, and
 * nobody waits for the rest, so that one process can hear many connections and needs no other
 * process for one that has shown nothing.
 */
#ifndef VG_OPENCL_WIRE_ARRIVAL_H
#define VG_OPENCL_WIRE_ARRIVAL_H

#include <stdbool.h>
#include <stddef.h>

#include "opencl/wire/link.h"

#define VG_WIRE_ARRIVAL_MAX 112 /* bytes: a hello, a token, and a session's hello */

struct vg_wire_arrival {
    unsigned char bytes[VG_WIRE_ARRIVAL_MAX];
    size_t has;
};

/* Who may come. Whether a credential is needed depends on the address alone: a socket of another
 * machine that has none configured takes nobody. */
struct vg_wire_terms {
    bool is_far;       /* the address is one of other machines */
    const char *token; /* of VG_WIRE_TOKEN_MAX bytes, that has to be shown; NULL: none */
    bool is_known;     /* the other side has shown by a certificate who it is */
};

enum vg_wire_arrived {
    VG_WIRE_ARRIVED_PART,    /* more has to come */
    VG_WIRE_ARRIVED_ALL,     /* it may be served, or may come back */
    VG_WIRE_ARRIVED_REFUSED, /* errno says why: EACCES, EPROTO, EPROTONOSUPPORT (it speaks TLS),
                              * or what the connection says */
};

/* Takes what has come on FD, which does not block, and judges it as a whole by TERMS. */
enum vg_wire_arrived vg_wire_arrival_read(struct vg_wire_arrival *arrival, int fd,
                                          const struct vg_wire_terms *terms);

/* Judges it again by other TERMS. It has arrived as a whole. */
bool vg_wire_arrival_may_come(const struct vg_wire_arrival *arrival,
                              const struct vg_wire_terms *terms);

/* Finds which session it wants. False: it is none that has sessions. */
bool vg_wire_arrival_session(const struct vg_wire_arrival *arrival,
                             struct vg_wire_session_hello *hello);

/* Whether it comes back to a session that it has begun before. */
bool vg_wire_arrival_comes_back(const struct vg_wire_arrival *arrival);

void vg_wire_refusal_make(struct vg_wire_refusal *refusal, const char *why);

/* Sends why a session has ended to one that comes back to it. False: it would not understand it. */
bool vg_wire_arrival_say_ended(const struct vg_wire_arrival *arrival, int fd, const char *why);

/* Forgets its token: what is left is for the link. */
void vg_wire_arrival_forget_token(struct vg_wire_arrival *arrival);

/* Sends the reason to the program, if that can be done at once. FD stays the caller's. */
void vg_wire_arrival_refuse(int fd, const char *why);

#endif
