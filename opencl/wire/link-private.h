/* SPDX-License-Identifier: Apache-2.0
 *
 * The handshake of a link, shared by its files.
 */
#ifndef VG_OPENCL_WIRE_LINK_PRIVATE_H
#define VG_OPENCL_WIRE_LINK_PRIVATE_H

#include <stdint.h>

#define LINK_MAGIC UINT64_C(0x314B4E4C55504756) /* "VGPULNK1" */

enum {
    LINK_SOCKET,
    LINK_SHARED,
    LINK_TOKEN,   /* a socket, followed by the program's token */
    LINK_SESSION, /* as LINK_TOKEN, then the requested session; the answer is a welcome */
};

/* The first message of each side. */
struct link_hello {
    uint64_t magic;
    uint64_t way;     /* the transport that the program requests, and that it gets */
    uint64_t staging; /* size of the shared memory, whose descriptor is attached. In the program's
                         message: */
};

#define LINK_TAKES_ENDS 1 /* it supports VG_WIRE_ENDED_MAGIC */

#endif
