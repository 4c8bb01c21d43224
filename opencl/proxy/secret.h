/* SPDX-License-Identifier: Apache-2.0
 *
 * Files with a token or a key that must not be readable by all users of the host. Usable in any of
 * the proxy's processes that still see the host's files.
 */
#ifndef VG_OPENCL_PROXY_SECRET_H
#define VG_OPENCL_PROXY_SECRET_H

#include <limits.h>
#include <stdbool.h>

/* The size of the buffer for a sentence about one file. */
#define VG_SECRET_FAULT (2 * PATH_MAX + 128)

/* Returns whether a regular file gives any permission to users who are neither its owner nor in its
 * group. Returns false for NULL, for a file of another kind, and for a file that cannot be queried.
 */
bool vg_secret_is_open(const char *path);

/* Writes a sentence that says that all users can read the file, and names the command that fixes
 * it. `what` is the contents of the file, as in "a token". Returns false, and writes nothing, if
 * the file is protected. */
bool vg_secret_fault(const char *path, const char *what, char fault[VG_SECRET_FAULT]);

/* Writes that sentence to the log, unless the file is protected. */
void vg_secret_warn(const char *path, const char *what);

#endif
