/* SPDX-License-Identifier: Apache-2.0
 *
 * A message through a unix socket, along with a descriptor.
 */
#ifndef VG_OPENCL_WIRE_PASS_H
#define VG_OPENCL_WIRE_PASS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* FD goes along, unless it is -1. False, with errno; FLAGS as those of sendmsg(2). */
bool vg_wire_pass(int socket, const void *bytes, size_t size, int fd, int flags);

/* As recvmsg(2); *FD, if it is not -1, is the caller's. */
ssize_t vg_wire_pass_receive(int socket, void *bytes, size_t size, int *fd, int flags);

#endif
