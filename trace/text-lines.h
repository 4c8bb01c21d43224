/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of a text in time order. A text may be a concatenation of several texts, each with its
 * own header: successive recordings, or the files per_cpu/cpuN/trace, which cover the same period
 * and are merged. One thread at a time.
 */
#ifndef VG_TRACE_TEXT_LINES_H
#define VG_TRACE_TEXT_LINES_H

#include "trace/recording.h"
#include "trace/text-source.h"

typedef struct vg_text_lines vg_text_lines;

/* Takes the source. Returns NULL if it is NULL. If the text can be read again, reads it once for
 * its headers, and once more if there are several. Records repeated in another part are dropped,
 * which is a problem of the recording. */
vg_text_lines *vg_text_lines_new(vg_text_source *source_take, vg_recording *recording);
void vg_text_lines_free(vg_text_lines *lines);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_text_lines, vg_text_lines_free)

/* Returns a reader of the same lines from the first, or NULL if the text cannot be read again (a
 * pipe). */
vg_text_lines *vg_text_lines_again(const vg_text_lines *lines);

/* Returns false at the end. When parts are merged, a header is delivered only if its recording
 * starts after the end of all previous parts. */
bool vg_text_lines_next(vg_text_lines *lines, struct vg_text_raw_line *ret);

/* Returns whether a line contains a word that recorders use to report losses. Returns true if the
 * text cannot be read again. */
bool vg_text_lines_report_loss(const vg_text_lines *lines);

/* As the functions of the source. */
int64_t vg_text_lines_offset(const vg_text_lines *lines);
const char *vg_text_lines_damage(const vg_text_lines *lines);
double vg_text_lines_progress(const vg_text_lines *lines);

/* Returns the source of the original text, which the lines own. */
vg_text_source *vg_text_lines_source(const vg_text_lines *lines);

/* Returns the number of bytes in the lines delivered until now. */
int64_t vg_text_lines_bytes(const vg_text_lines *lines);

/* Returns why lines are missing, because parts could not be opened, or NULL. */
const char *vg_text_lines_error(const vg_text_lines *lines);

#endif
