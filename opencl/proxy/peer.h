/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is at the other side of a socket.
 */
#ifndef VG_OPENCL_PROXY_PEER_H
#define VG_OPENCL_PROXY_PEER_H

#include "opencl/proxy/share.h"

/* Returns which VM the other side of a vsock is; 0: it is none. */
unsigned vg_peer_cid(int fd);

/* Says in words who it is: an address and a port, a CID, or a process of this machine. */
void vg_peer_describe(int fd, char text[PROXY_FROM_MAX]);

#endif
