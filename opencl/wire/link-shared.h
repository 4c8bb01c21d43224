/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared memory between the two sides of a link: a ring buffer in each direction, and a staging
 * area that the program's side divides up. The proxy creates the memory, seals its size and passes
 * it to the program. Each side keeps its own ring positions privately and checks the other side's
 * positions for plausibility.
 *
 * A reader polls for a few microseconds if this has been useful before and there is more than one
 * processor. It then announces that it will sleep, and the other side wakes it with a byte through
 * the socket. Closing the socket wakes it, too. A writer that waits for space, which is rare,
 * polls.
 */
#ifndef VG_OPENCL_WIRE_LINK_SHARED_H
#define VG_OPENCL_WIRE_LINK_SHARED_H

#include "opencl/wire/link.h"

#define VG_WIRE_STAGING_MAX (UINT64_C(1) << 32) /* bytes */

/* The proxy's side: creates the memory with STAGING bytes for data and stores a descriptor for the
 * other side in *MEMORY. Returns NULL with errno on failure. */
struct vg_wire_shared *vg_wire_shared_make(size_t staging, int *memory);

/* The program's side: opens the memory that it received. The caller still owns MEMORY. Returns NULL
 * if MEMORY is not valid or memory is exhausted. */
struct vg_wire_shared *vg_wire_shared_open(int memory, uint64_t staging);

/* Makes readers regard the link as broken after waiting for MS milliseconds, or never if MS is
 * -1. */
void vg_wire_shared_limit(struct vg_wire_shared *shared, int ms);

/* Aborts sending and receiving, even within a message. Any thread. */
void vg_wire_shared_shut(struct vg_wire_shared *shared);

void vg_wire_shared_close(struct vg_wire_shared *shared);

/* As the functions of the link, whose socket is FD. */
bool vg_wire_shared_send(struct vg_wire_shared *shared, int fd, const struct iovec *parts, int n,
                         void (*help)(void *data), void *data);
void vg_wire_shared_offer(struct vg_wire_shared *shared, int fd, const void *bytes, size_t size);
bool vg_wire_shared_receive(struct vg_wire_shared *shared, int fd, void *to, size_t size);
bool vg_wire_shared_wait(struct vg_wire_shared *shared, int fd, int timeout_ms);

#endif
