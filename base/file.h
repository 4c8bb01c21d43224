/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that a person names. Any thread.
 */
#ifndef VG_BASE_FILE_H
#define VG_BASE_FILE_H

#include <stddef.h>

#include <glib.h>

/* A whole file, at most max bytes; "-" is standard input. The caller frees *ret_text. */
int vg_file_read(const char *path, size_t max, char **ret_text, size_t *ret_size, GError **err);

/* Whether vg_file_write() has a place for path, to know before the work is done. */
int vg_file_check_place(const char *path, GError **err);

/* Writes text to path through a new file beside it, so that a failure leaves the old one; what is
 * no regular file is written to as it is. */
int vg_file_write(const char *path, const char *text, GError **err);

#endif
