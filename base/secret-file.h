/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that contain a key, a token or a password and must not be readable by every user. Any
 * thread.
 */
#ifndef VG_BASE_SECRET_FILE_H
#define VG_BASE_SECRET_FILE_H

/* If every user on this machine can read the file, returns a sentence that says so and gives the
 * command that fixes it. `what` names the contents of the file; the caller frees it. Otherwise, or
 * if the file does not exist, returns NULL. */
char *vg_secret_file_fault(const char *path, const char *what);

#endif
