/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks that this process may open all stream files of the traces. One thread at a time.
 */
#ifndef VG_TRACE_CTF_ROOM_H
#define VG_TRACE_CTF_ROOM_H

#include "trace/ctf-read.h"

/* Fails with VG_E_INVALID and states the number of file descriptors needed. A stream that could
 * not be opened would be missing from all figures. */
int vg_ctf_check_room(const struct vg_ctf_tree *tree, GError **err);

#endif
