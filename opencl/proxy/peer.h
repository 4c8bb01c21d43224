/* SPDX-License-Identifier: Apache-2.0
 *
 * Identifies the peer of a socket.
 */
#ifndef VG_OPENCL_PROXY_PEER_H
#define VG_OPENCL_PROXY_PEER_H

#include <sys/types.h>

#include "opencl/proxy/share.h"

/* Returns the CID of the VM at the other side of a vsock, or 0 if the peer is not a VM. */
unsigned vg_peer_cid(int fd);

/* Describes the peer in words: an address and a port, a CID, or a local process. */
void vg_peer_describe(int fd, char text[PROXY_FROM_MAX]);

/* Returns whether the peer of a unix socket descends from this process, as clients' processes do.
 * Also returns true if this cannot be determined and the peer runs as UID, the clients' user. */
bool vg_peer_is_own(int fd, uid_t uid);

#endif
