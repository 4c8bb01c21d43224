/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that the two sides of a link have in common: a ring of bytes in each direction, and a
 * staging area, which the program's side divides up. The proxy makes the memory, seals its size,
 * and gives it to the program. Each side keeps its own places in the rings to itself, and believes
 * the other's only so far as they can be.
 *
 * Who waits for bytes looks for them for some microseconds, if that has been worth it and there is
 * more than one processor. Then he says that he sleeps, and the other side wakes him with a byte
 * through the socket, whose end also wakes him. Who waits for room, which is rare, looks again
 * after a while.
 */
#ifndef VG_OPENCL_WIRE_LINK_SHARED_H
#define VG_OPENCL_WIRE_LINK_SHARED_H

#include "opencl/wire/link.h"

#define VG_WIRE_STAGING_MAX (UINT64_C(1) << 32) /* bytes */

/* The proxy's side: makes memory with STAGING bytes for data. Returns a descriptor for the other
 * side in *MEMORY. NULL, with errno. */
struct vg_wire_shared *vg_wire_shared_make(size_t staging, int *memory);

/* The program's side, of what it got; MEMORY stays the caller's. NULL: it is not what it should
 * be, or there is no memory. */
struct vg_wire_shared *vg_wire_shared_open(int memory, uint64_t staging);

/* Has who waits for bytes for longer than MS take the link for broken; -1: nobody. */
void vg_wire_shared_limit(struct vg_wire_shared *shared, int ms);

/* Nothing is sent or received any more, not even the rest of what is being sent or received. Any
 * thread. */
void vg_wire_shared_shut(struct vg_wire_shared *shared);

void vg_wire_shared_close(struct vg_wire_shared *shared);

/* As those of the link, whose socket is FD. */
bool vg_wire_shared_send(struct vg_wire_shared *shared, int fd, const struct iovec *parts, int n,
                         void (*help)(void *data), void *data);
void vg_wire_shared_offer(struct vg_wire_shared *shared, int fd, const void *bytes, size_t size);
bool vg_wire_shared_receive(struct vg_wire_shared *shared, int fd, void *to, size_t size);
bool vg_wire_shared_wait(struct vg_wire_shared *shared, int fd, int timeout_ms);

#endif
