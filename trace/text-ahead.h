/* SPDX-License-Identifier: Apache-2.0
 *
 * A second reader of a text that reads ahead of the first, to determine whether a CPU has records
 * at all. It reads only as far as necessary. One thread at a time.
 */
#ifndef VG_TRACE_TEXT_AHEAD_H
#define VG_TRACE_TEXT_AHEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/text-files.h"
#include "trace/text-lines.h"

typedef struct vg_text_ahead vg_text_ahead;

/* Both are borrowed. Returns NULL if the text cannot be read again, such as from a pipe. */
vg_text_ahead *vg_text_ahead_new(const vg_text_lines *lines, struct vg_text_files *files);
void vg_text_ahead_free(vg_text_ahead *ahead);

bool vg_text_ahead_has_cpu(vg_text_ahead *ahead, int32_t cpu);

#endif
