/* SPDX-License-Identifier: Apache-2.0
 *
 * The directory of a store: its lock, and the files in it.
 */
#ifndef VG_STORE_STORE_DIR_H
#define VG_STORE_STORE_DIR_H

#include <glib.h>

#include "store/store-time.h"

/* Creates the directory if its parent exists, and takes its lock, which the kernel releases when
 * the process exits. Returns a file descriptor to close, or -1; fails with VG_E_BUSY if another
 * process has the lock. */
int vg_store_dir_lock(const char *directory, GError **err);

/* Returns whether the lock still belongs to the directory of this name. */
bool vg_store_dir_is_ours(const char *directory, int lock_fd);

/* Lists the stamps (int64_t) of the files of a kind that overlap begin <= t <= end, ascending.
 * Returns an empty array and sets *err if the directory cannot be read. */
GArray *vg_store_dir_list(const char *directory, enum vg_store_kind kind, int64_t begin_ns,
                          int64_t end_ns, GError **err);

/* Lists the names (char *) of a kind's damaged files that were moved aside, for the same period,
 * ascending. */
GPtrArray *vg_store_dir_list_aside(const char *directory, enum vg_store_kind kind, int64_t begin_ns,
                                   int64_t end_ns);

/* The suffix of a damaged file that was moved aside; a number follows. */
#define VG_STORE_ASIDE ".corrupt-"

/* Returns when the file or its log was last written, since the epoch; INT64_MIN if it does not
 * exist. */
int64_t vg_store_dir_written_ns(const char *directory, enum vg_store_kind kind, int64_t stamp);

/* Returns the total size of the directory's files in bytes. Files of unknown size are not included.
 */
int64_t vg_store_dir_bytes(const char *directory);

/* Returns the number of bytes on its file system that are available to users other than root, or -1
 * if unknown. */
int64_t vg_store_dir_free_bytes(const char *directory);

#endif
