/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and writes of much memory by way of areas in common with the proxy, in pieces: while one
 * side copies a piece, the other one copies the piece before or after it.
 */
#ifndef VG_OPENCL_CLIENT_PIECES_H
#define VG_OPENCL_CLIENT_PIECES_H

#include "opencl/client/client.h"

/* Whether a command of SIZE bytes can be done in pieces, and is worth it: nobody waits for it but
 * those behind it in its queue, which is in order. */
bool vg_wire_pieces_can(cl_command_queue queue, size_t size, cl_uint n_events, bool has_event);

/* A write that is known to do well (later.h). */
cl_int vg_wire_pieces_write(cl_command_queue queue, cl_mem buffer, bool is_blocking, size_t offset,
                            size_t size, const void *from);

/* A read that is waited for. */
cl_int vg_wire_pieces_read(cl_command_queue queue, cl_mem buffer, size_t offset, size_t size,
                           void *to);

#endif
