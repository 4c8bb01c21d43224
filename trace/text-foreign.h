/* SPDX-License-Identifier: Apache-2.0
 *
 * What people give in place of trace text, and what to do about it.
 */
#ifndef VG_TRACE_TEXT_FOREIGN_H
#define VG_TRACE_TEXT_FOREIGN_H

#include "trace/text-source.h"

/* Fails if a source starts as another kind of file. No line of the source has
 * been read yet. */
int vg_text_foreign_refuse(vg_text_source *source, const char *name, GError **err);

/* What to do about a line that is not understood; NULL: unknown. Static. */
const char *vg_text_foreign_hint(struct vg_text_span text);

#endif
