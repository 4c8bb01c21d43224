/* SPDX-License-Identifier: Apache-2.0
 *
 * Text in which trace-cmd has merged several files or instances, so that each line starts with a
 * file name. Instances are buffers of one kernel. Files may come from a host and its guests, which
 * use the same numbers for different threads and CPUs. Only the host's files are read. One thread
 * at a time.
 */
#ifndef VG_TRACE_TEXT_FILES_H
#define VG_TRACE_TEXT_FILES_H

#include "trace/recording.h"
#include "trace/text-line.h"
#include "trace/text-lines.h"

/* Maximum number of files that are distinguished; lines of further files are dropped. */
#define VG_TEXT_FILES_MAX 64

struct vg_text_files;

/* Determines the role of each file. If the first event has a file name, this reads the text an
 * extra time. Dropped files become a problem of the recording. Returns NULL if all lines are from
 * one kernel. */
struct vg_text_files *vg_text_files_find(const vg_text_lines *lines, vg_recording *recording);
void vg_text_files_free(struct vg_text_files *files);

/* The state of a line reader. Initially {files, false}. */
struct vg_text_files_at {
    struct vg_text_files *files; /* if NULL, all lines are accepted */
    bool skips_next; /* the line after a loss line belongs to the same file and has no name */
};

/* Returns whether to read the line. Call for every line in order. */
bool vg_text_files_take(struct vg_text_files_at *at, enum vg_text_kind kind,
                        const struct vg_text_line *line);

#endif
