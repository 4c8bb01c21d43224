/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends a message through a unix socket, with an optional descriptor.
 */
#ifndef VG_OPENCL_WIRE_PASS_H
#define VG_OPENCL_WIRE_PASS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Attaches FD unless it is -1. FLAGS are as in sendmsg(2). Returns false with errno on failure. */
bool vg_wire_pass(int socket, const void *bytes, size_t size, int fd, int flags);

/* As recvmsg(2). If *FD is not -1, the caller owns it. */
ssize_t vg_wire_pass_receive(int socket, void *bytes, size_t size, int *fd, int flags);

#endif
