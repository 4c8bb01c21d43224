/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that contain a key, a token or a password and must not be readable by every user. Any
 * thread.
 */
#ifndef VG_BASE_SECRET_FILE_H
#define VG_BASE_SECRET_FILE_H

/* If every user on this machine can read the file, returns a sentence that says so, with `what` for
 * its contents, and the command that fixes it; the caller frees it. Otherwise, or if the file does
 * not exist, returns NULL. */
char *vg_secret_file_fault(const char *path, const char *what);

#endif
