/* SPDX-License-Identifier: Apache-2.0
 *
 * Detects input that is not trace text, and suggests a solution.
 */
#ifndef VG_TRACE_TEXT_FOREIGN_H
#define VG_TRACE_TEXT_FOREIGN_H

#include "trace/text-source.h"

/* Fails if the source starts like another kind of file. No line of the source may have been
 * read. */
int vg_text_foreign_refuse(vg_text_source *source, const char *name, GError **err);

/* Returns advice about a line that is not understood, or NULL if there is no advice. Static. */
const char *vg_text_foreign_hint(struct vg_text_span text);

#endif
