/* SPDX-License-Identifier: Apache-2.0
 *
 * The directory of a store: whose it is, and which files are in it.
 */
#ifndef VG_STORE_STORE_DIR_H
#define VG_STORE_STORE_DIR_H

#include <glib.h>

#include "store/store-time.h"

/* Makes the directory if its parent is there, and takes its lock, which the kernel gives back when
 * the process ends. A file descriptor to close, or -1: VG_E_BUSY if another process has it. */
int vg_store_dir_lock(const char *directory, GError **err);

/* Is the lock still that of the directory of this name? */
bool vg_store_dir_is_ours(const char *directory, int lock_fd);

/* Stamps of the files of a kind whose time touches begin <= t <= end, ascending; int64_t. An empty
 * array and *err if the directory cannot be read. */
GArray *vg_store_dir_list(const char *directory, enum vg_store_kind kind, int64_t begin_ns,
                          int64_t end_ns, GError **err);

/* Names of the damaged files of a kind that were moved aside, of the same time; char *, ascending.
 */
GPtrArray *vg_store_dir_list_aside(const char *directory, enum vg_store_kind kind, int64_t begin_ns,
                                   int64_t end_ns);

/* What is put behind the name of a damaged file that is moved aside; a number follows. */
#define VG_STORE_ASIDE ".corrupt-"

/* When the file or its log was last written to, epoch; INT64_MIN if it is not there. */
int64_t vg_store_dir_written_ns(const char *directory, enum vg_store_kind kind, int64_t stamp);

/* Bytes of all files in it, as far as they can be asked for. */
int64_t vg_store_dir_bytes(const char *directory);

/* Bytes that its file system has left for who is not root; -1: not known. */
int64_t vg_store_dir_free_bytes(const char *directory);

#endif
