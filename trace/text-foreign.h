/* SPDX-License-Identifier: Apache-2.0
 *
 * Detects input that is not trace text, and suggests a solution.
 */
#ifndef VG_TRACE_TEXT_FOREIGN_H
#define VG_TRACE_TEXT_FOREIGN_H

#include "trace/text-source.h"

/* Fails if the start of the source indicates another kind of file. Must be called before any line
 * is read. */
int vg_text_foreign_refuse(vg_text_source *source, const char *name, GError **err);

/* Returns advice about a line that could not be parsed, or NULL if there is none. The text is
 * static. */
const char *vg_text_foreign_hint(struct vg_text_span text);

#endif
