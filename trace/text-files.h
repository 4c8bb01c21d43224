/* SPDX-License-Identifier: Apache-2.0
 *
 * Text in which trace-cmd has put several files or instances together: then each line begins with
 * the name of its own. Instances are buffers of one kernel; files may be of a host and of its
 * guests, whose threads and CPUs are others with the same numbers. Those of the host are read.
 * One thread at a time.
 */
#ifndef VG_TRACE_TEXT_FILES_H
#define VG_TRACE_TEXT_FILES_H

#include "trace/recording.h"
#include "trace/text-line.h"
#include "trace/text-lines.h"

/* Files that are told apart; lines of further ones are left out. */
#define VG_TEXT_FILES_MAX 64

struct vg_text_files;

/* Looks who is who, for which the text is read once more if its first event has a name in front;
 * what is left out becomes a problem of the recording. NULL: all lines are of one kernel. */
struct vg_text_files *vg_text_files_find(const vg_text_lines *lines, vg_recording *recording);
void vg_text_files_free(struct vg_text_files *files);

/* Where a reader of lines is: first {files, false}. */
struct vg_text_files_at {
    struct vg_text_files *files; /* NULL: all lines are taken */
    bool skips_next; /* the line that follows that of a loss is of the same file, and has no name */
};

/* Tells whether the line, one after the other, is to be read. */
bool vg_text_files_take(struct vg_text_files_at *at, enum vg_text_kind kind,
                        const struct vg_text_line *line);

#endif
