/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of a text in the order of time. A text may be several that were put one behind the
 * other, each with a head of its own: recordings that follow each other, or the files of
 * per_cpu/cpuN/trace, which are of the same time and are merged. One thread at a time.
 */
#ifndef VG_TRACE_TEXT_LINES_H
#define VG_TRACE_TEXT_LINES_H

#include "trace/recording.h"
#include "trace/text-source.h"

typedef struct vg_text_lines vg_text_lines;

/* Takes the source, also if it is NULL: then it is NULL. A text that can be read again is read once
 * for its heads, and once more if there are several. Records that a part repeats are a problem of
 * the recording, and left out. */
vg_text_lines *vg_text_lines_new(vg_text_source *source_take, vg_recording *recording);
void vg_text_lines_free(vg_text_lines *lines);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_text_lines, vg_text_lines_free)

/* The same lines from the first one on; NULL where that cannot be done (a pipe). */
vg_text_lines *vg_text_lines_again(const vg_text_lines *lines);

/* False at the end. Of parts that are merged, a head is only delivered where a recording begins
 * behind the end of all before it. */
bool vg_text_lines_next(vg_text_lines *lines, struct vg_text_raw_line *ret);

/* Whether a line has a word with which recorders tell of losses; where the text cannot be read
 * again, true. */
bool vg_text_lines_tell_loss(const vg_text_lines *lines);

/* As of the source. */
int64_t vg_text_lines_offset(const vg_text_lines *lines);
const char *vg_text_lines_damage(const vg_text_lines *lines);
double vg_text_lines_progress(const vg_text_lines *lines);

/* The source of the text as it is, which the lines own. */
vg_text_source *vg_text_lines_source(const vg_text_lines *lines);

/* Bytes of the lines delivered so far. */
int64_t vg_text_lines_bytes(const vg_text_lines *lines);

/* Why lines that should be there are not, or NULL: parts could not be opened. */
const char *vg_text_lines_error(const vg_text_lines *lines);

#endif
