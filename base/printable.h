/* SPDX-License-Identifier: Apache-2.0
 *
 * External text shown to people. Names of VMs, hosts and files may contain anything. Characters
 * that move the cursor, break a line or change the writing direction must not reach a terminal;
 * otherwise, a name could be mistaken for output of the program. JSON and YAML are for programs and
 * contain the exact text.
 */
#ifndef VG_BASE_PRINTABLE_H
#define VG_BASE_PRINTABLE_H

#include <glib.h>

/* Returns one line. Control and format characters (C0, C1, bidirectional controls, zero width),
 * line and paragraph separators, and bytes that are not valid UTF-8 become '?'. The caller frees
 * it. */
char *vg_printable_text(const char *text);

/* Appends the formatted text in the form of vg_printable_text(), and a newline. */
void vg_printable_append_line(GString *to, const char *fmt, ...) G_GNUC_PRINTF(2, 3);

/* Returns an argument quoted for a shell. If vg_printable_text() would change it, it is written as
 * $'...' with octal escapes, which bash, ksh and zsh convert back exactly. The caller frees it. */
char *vg_printable_quote(const char *argument);

#endif
