/* SPDX-License-Identifier: Apache-2.0
 *
 * How the two sides of a link begin, which is what its files share.
 */
#ifndef VG_OPENCL_WIRE_LINK_PRIVATE_H
#define VG_OPENCL_WIRE_LINK_PRIVATE_H

#include <stdint.h>

#define LINK_MAGIC UINT64_C(0x314B4E4C55504756) /* "VGPULNK1" */

enum {
    LINK_SOCKET,
    LINK_SHARED,
    LINK_TOKEN,   /* a socket; the program's token comes next */
    LINK_SESSION, /* the same, and then which session it wants; a welcome is the answer */
};

/* What both sides send first. */
struct link_hello {
    uint64_t magic;
    uint64_t way;     /* that the program wants, and that it gets */
    uint64_t staging; /* of what is shared; the descriptor comes along. Of the program's: */
};

#define LINK_TAKES_ENDS 1 /* it understands VG_WIRE_ENDED_MAGIC */

#endif
