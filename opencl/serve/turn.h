/* SPDX-License-Identifier: Apache-2.0
 *
 * A client's turns at the device, in the client's process. One client at a time has the device.
 * Who that is, the proxy says, over a socket between it and each client's process; most messages
 * are one byte. Commands of a client that does not have the device wait here, and it is given back
 * when all that the client gave to it is done. So long as nobody else wants it, it is kept, and
 * costs nothing. The same socket brings another connection of the client, if that has lost its one.
 * Who waits asks each second whether the proxy is there: one that hangs gives nothing, and the
 * client is told so after VG_WIRE_OPEN_S.
 */
#ifndef VG_OPENCL_SERVE_TURN_H
#define VG_OPENCL_SERVE_TURN_H

#include "opencl/base/sha256.h"
#include "opencl/serve/serve.h"

enum vg_turn_said {
    /* of the client's process */
    VG_TURN_WANT = 'W', /* it has a command */
    VG_TURN_BACK = 'B', /* it gives the device back */
    /* of the proxy */
    VG_TURN_GIVE = 'G', /* the device is the client's */
    VG_TURN_IDLE = 'I', /* another one waits: give it back when nothing is to be done */
    VG_TURN_ASK = 'A',  /* give it back now */
    /* of the client's process, while it wants the device, and of the proxy */
    VG_TURN_THERE = 'T', /* are you there? I am there */
    /* of both, as a struct vg_turn_link: */
    VG_TURN_LINK = 'L', /* another connection, along with it, is this session's */
    /* of both, as a struct vg_turn_sign: */
    VG_TURN_SIGN = 'S', /* what is to be signed, and the signature */
};

struct vg_turn_sign {
    char said;
    unsigned char bytes[VG_SHA256_SIZE];
};

struct vg_turn_link {
    char said;
    struct vg_wire_session_hello hello; /* of the connection's other side */
};

struct vg_serve_turn;

/* SERVE has to be there as long as the process. A command that holds the device for longer than
 * the client may, after it was asked back, ends the process. NULL: there is no memory, or no
 * thread. */
struct vg_serve_turn *vg_serve_turn_begin(struct vg_serve *serve,
                                          const struct vg_serve_limits *limits);

/* Whether OP may give the device something to do. */
bool vg_serve_turn_is_command(unsigned op);

/* Around what may give the device something to do; TURN may be NULL. From any thread. False: too
 * many commands wait, and it must not be done, nor left. */
bool vg_serve_turn_enter(struct vg_serve_turn *turn, unsigned op);
void vg_serve_turn_leave(struct vg_serve_turn *turn, unsigned op);

/* Has the proxy sign a digest for this client's VM (sign.h). From any thread. False: the proxy is
 * gone. */
bool vg_serve_turn_sign(struct vg_serve_turn *turn, const unsigned char digest[VG_SHA256_SIZE],
                        unsigned char mac[VG_SHA256_SIZE]);

#endif
