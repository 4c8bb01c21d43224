/* SPDX-License-Identifier: Apache-2.0
 *
 * The directory of a recording: a new one, an empty one, or one with an old recording, which is
 * replaced only when the new one is complete. One thread.
 */
#ifndef VG_CLI_RECORD_DIR_H
#define VG_CLI_RECORD_DIR_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

/* What a recording may consist of, and what is there only while it is made. */
#define VG_RECORD_LTTNG   "kernel"
#define VG_RECORD_CTF     "ctf"
#define VG_RECORD_TEXT    "trace.txt"
#define VG_RECORD_VM_MAP  "vm-map.txt"
#define VG_RECORD_SCRATCH "perf.data"

/* A file system must have so much left to begin with, and while it is written to. */
#define VG_RECORD_ROOM_BYTES INT64_C(67108864)
#define VG_RECORD_LEFT_BYTES INT64_C(33554432)

typedef struct vg_record_dir vg_record_dir;

/* path NULL: a new one in the working directory, named after the time. VG_E_CONFLICT if there is
 * something already, which force lets go if it is a recording and nothing else. */
vg_record_dir *vg_record_dir_new(const char *path, bool force, GError **err);

const char *vg_record_dir_path(const vg_record_dir *dir); /* absolute */

/* Removes what was written, so that another way may try. */
void vg_record_dir_empty(const vg_record_dir *dir);

/* The recording is complete: what it replaces is removed. */
void vg_record_dir_keep(vg_record_dir *dir);

/* Without keep, everything is as it was before. NULL is fine. */
void vg_record_dir_free(vg_record_dir *dir);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_record_dir, vg_record_dir_free)

/* VG_E_IO unless the file system of path has so much room. */
int vg_record_dir_check_room(const char *path, int64_t bytes, GError **err);

#endif
