/* SPDX-License-Identifier: Apache-2.0
 *
 * Files named by a user. Any thread.
 */
#ifndef VG_BASE_FILE_H
#define VG_BASE_FILE_H

#include <stddef.h>

#include <glib.h>

/* Opens /dev/null for each of the descriptors 0 to 2 that is closed, so that no other file gets its
 * number. Reads and writes of these fail with EBADF. To be called first in main(). */
void vg_file_reserve_standard(void);

/* Reads a whole file of at most max bytes; "-" is standard input. The caller frees *ret_text. */
int vg_file_read(const char *path, size_t max, char **ret_text, size_t *ret_size, GError **err);

/* Checks in advance whether vg_file_write() can write to path. */
int vg_file_check_place(const char *path, GError **err);

/* Writes text to path through a new file in the same directory, so that the old file remains after
 * a failure. If path is not a regular file, it is written to directly. */
int vg_file_write(const char *path, const char *text, GError **err);

#endif
