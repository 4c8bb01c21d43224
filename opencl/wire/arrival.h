/* SPDX-License-Identifier: Apache-2.0
 *
 * The first bytes that a program sends on a new connection: the transport that it wants, its
 * token, and the session that it returns to. They are read as they arrive, without blocking. One
 * process can thus handle many connections and starts no process for a connection that has not
 * authenticated.
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

/* Admission terms. The need for a credential depends only on the address: a socket for other
 * machines without a configured credential admits no client. */
struct vg_wire_terms {
    bool is_far;       /* the address is one of other machines */
    const char *token; /* required token of VG_WIRE_TOKEN_MAX bytes; NULL if not required */
    bool is_known;     /* the peer has authenticated with a certificate */
};

enum vg_wire_arrived {
    VG_WIRE_ARRIVED_PART,    /* incomplete */
    VG_WIRE_ARRIVED_ALL,     /* complete and admitted */
    VG_WIRE_ARRIVED_REFUSED, /* see errno: EACCES, EPROTO, EPROTONOSUPPORT (the peer speaks TLS), or
                                a socket error */
};

/* Reads what has arrived on FD, which must be non-blocking. When complete, checks it against
 * TERMS. */
enum vg_wire_arrived vg_wire_arrival_read(struct vg_wire_arrival *arrival, int fd,
                                          const struct vg_wire_terms *terms);

/* Checks the arrival again with other TERMS. It must be complete. */
bool vg_wire_arrival_may_come(const struct vg_wire_arrival *arrival,
                              const struct vg_wire_terms *terms);

/* Gets the session that the program requests. Returns false if the connection uses no session. */
bool vg_wire_arrival_session(const struct vg_wire_arrival *arrival,
                             struct vg_wire_session_hello *hello);

/* Returns whether the program returns to an existing session. */
bool vg_wire_arrival_comes_back(const struct vg_wire_arrival *arrival);

void vg_wire_refusal_make(struct vg_wire_refusal *refusal, const char *why);

/* Sends the reason why its session has ended. Returns false if the peer does not understand this
 * message. */
bool vg_wire_arrival_say_ended(const struct vg_wire_arrival *arrival, int fd, const char *why);

/* Erases the token. The remaining bytes are for the link. */
void vg_wire_arrival_forget_token(struct vg_wire_arrival *arrival);

/* Sends the reason to the program, unless this would block. The caller still owns FD. */
void vg_wire_arrival_refuse(int fd, const char *why);

#endif
