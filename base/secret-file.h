/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that hold a key, a token or a password, and that not everybody may read. Any thread.
 */
#ifndef VG_BASE_SECRET_FILE_H
#define VG_BASE_SECRET_FILE_H

/* Returns a sentence that says that everybody on this machine can read a file, which holds `what`,
 * and the command that ends that; the caller frees it. NULL: that is not so, or there is no such
 * file. */
char *vg_secret_file_fault(const char *path, const char *what);

#endif
