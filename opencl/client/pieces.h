/* SPDX-License-Identifier: Apache-2.0
 *
 * Large reads and writes through areas shared with the proxy, in pieces. While one side copies a
 * piece, the other side copies the previous or the next piece.
 */
#ifndef VG_OPENCL_CLIENT_PIECES_H
#define VG_OPENCL_CLIENT_PIECES_H

#include "opencl/client/client.h"

/* Returns whether a command of SIZE bytes can be split into pieces and gains from it. Only the
 * commands behind it in its in-order queue may wait for it. */
bool vg_wire_pieces_can(cl_command_queue queue, size_t size, cl_uint n_events, bool has_event);

/* Writes in pieces. The write must be known to succeed (later.h). */
cl_int vg_wire_pieces_write(cl_command_queue queue, cl_mem buffer, bool is_blocking, size_t offset,
                            size_t size, const void *from);

/* Reads in pieces and waits for the result. */
cl_int vg_wire_pieces_read(cl_command_queue queue, cl_mem buffer, size_t offset, size_t size,
                           void *to);

#endif
