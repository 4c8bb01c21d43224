/* SPDX-License-Identifier: Apache-2.0
 *
 * A client's turns at the device, in the client's process. Only one client has the device at a
 * time. The proxy decides which, over a socket to each client's process; most messages are one
 * byte. While a client does not have the device, its commands wait here. It returns the device when
 * all its submitted commands are done. If no other client wants the device, the client keeps it at
 * no cost. The same socket delivers a new connection after the client lost its previous one. A
 * waiting client polls the proxy each second. If the proxy hangs, the client gets an error after
 * VG_WIRE_OPEN_S.
 */
#ifndef VG_OPENCL_SERVE_TURN_H
#define VG_OPENCL_SERVE_TURN_H

#include "opencl/base/sha256.h"
#include "opencl/serve/serve.h"

enum vg_turn_said {
    /* sent by the client's process */
    VG_TURN_WANT = 'W', /* it has a command */
    VG_TURN_BACK = 'B', /* it returns the device */
    /* sent by the proxy */
    VG_TURN_GIVE = 'G', /* the client now has the device */
    VG_TURN_IDLE = 'I', /* another client is waiting: return the device when idle */
    VG_TURN_ASK = 'A',  /* return the device now */
    /* sent by the client's process while it wants the device, and by the proxy */
    VG_TURN_THERE = 'T', /* a keepalive, and its answer */
    /* sent by both, as a struct vg_turn_link: */
    VG_TURN_LINK = 'L', /* the attached descriptor is a new connection of this session */
    /* sent by both, as a struct vg_turn_sign: */
    VG_TURN_SIGN = 'S', /* data to sign, and the signature */
};

struct vg_turn_sign {
    char said;
    unsigned char bytes[VG_SHA256_SIZE];
};

struct vg_turn_link {
    char said;
    struct vg_wire_session_hello hello; /* of the peer of the connection */
};

struct vg_serve_turn;

/* SERVE must exist until the process ends. A command that holds the device beyond the client's
 * limit, after the proxy requested it back, ends the process. Returns NULL if memory is exhausted
 * or the thread cannot be created. */
struct vg_serve_turn *vg_serve_turn_begin(struct vg_serve *serve,
                                          const struct vg_serve_limits *limits);

/* Call before and after anything that may submit work to the device. TURN may be NULL. Any thread.
 * If enter returns false, too many commands wait: do not submit the work or call leave. */
bool vg_serve_turn_enter(struct vg_serve_turn *turn, unsigned op);
void vg_serve_turn_leave(struct vg_serve_turn *turn, unsigned op);

/* Waits until all commands that were submitted before are done. Any thread. */
void vg_serve_turn_finish(struct vg_serve *serve);

/* Makes the proxy sign a digest for this client's VM (sign.h). Any thread. Returns false if the
 * proxy has exited. */
bool vg_serve_turn_sign(struct vg_serve_turn *turn, const unsigned char digest[VG_SHA256_SIZE],
                        unsigned char mac[VG_SHA256_SIZE]);

#endif
