/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is at the other side of a socket.
 */
#ifndef VG_OPENCL_PROXY_PEER_H
#define VG_OPENCL_PROXY_PEER_H

#include <sys/types.h>

#include "opencl/proxy/share.h"

/* Returns which VM the other side of a vsock is; 0: it is none. */
unsigned vg_peer_cid(int fd);

/* Says in words who it is: an address and a port, a CID, or a process of this machine. */
void vg_peer_describe(int fd, char text[PROXY_FROM_MAX]);

/* Returns whether the process at the other side of a unix socket descends from this one, as those
 * of clients do. One of UID, whose theirs are, of which that cannot be found out, is taken for one.
 */
bool vg_peer_is_own(int fd, uid_t uid);

#endif
