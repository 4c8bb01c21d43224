/* SPDX-License-Identifier: Apache-2.0
 *
 * The directory of a recording. It is new, empty, or contains an old recording, which is replaced
 * only when the new one is complete. One thread.
 */
#ifndef VG_CLI_RECORD_DIR_H
#define VG_CLI_RECORD_DIR_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

/* The possible contents of a recording, and files that exist only while it is made. */
#define VG_RECORD_LTTNG   "kernel"
#define VG_RECORD_CTF     "ctf"
#define VG_RECORD_TEXT    "trace.txt"
#define VG_RECORD_VM_MAP  "vm-map.txt"
#define VG_RECORD_SCRATCH "perf.data"

/* Minimum free space of the file system at the start and during writing. */
#define VG_RECORD_ROOM_BYTES INT64_C(67108864)
#define VG_RECORD_LEFT_BYTES INT64_C(33554432)

typedef struct vg_record_dir vg_record_dir;

/* If path is NULL, creates a directory in the working directory, named after the time. Fails with
 * VG_E_CONFLICT if the directory is not empty; with force, an existing recording without other
 * files is accepted. */
vg_record_dir *vg_record_dir_new(const char *path, bool force, GError **err);

const char *vg_record_dir_path(const vg_record_dir *dir); /* absolute */

/* Removes everything written, so that another method can be tried. */
void vg_record_dir_empty(const vg_record_dir *dir);

/* Marks the recording as complete and removes the old recording. */
void vg_record_dir_keep(vg_record_dir *dir);

/* Restores the previous state, unless the recording was marked as complete. NULL is allowed. */
void vg_record_dir_free(vg_record_dir *dir);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_record_dir, vg_record_dir_free)

/* Fails with VG_E_IO unless the file system of path has this much free space. */
int vg_record_dir_check_room(const char *path, int64_t bytes, GError **err);

#endif
