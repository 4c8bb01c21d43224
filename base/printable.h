/* SPDX-License-Identifier: Apache-2.0
 *
 * Text from outside on its way to people. Names of VMs, hosts and files may hold anything; what
 * moves the cursor, breaks a line or turns the direction of writing must not reach a terminal, or a
 * name could pass for output of the program. JSON and YAML are for machines and stay exact.
 */
#ifndef VG_BASE_PRINTABLE_H
#define VG_BASE_PRINTABLE_H

#include <glib.h>

/* One line: control and format characters (C0, C1, bidirectional controls, zero width), line and
 * paragraph separators, and bytes that are no UTF-8 become '?'. The caller frees it. */
char *vg_printable_text(const char *text);

/* A line made so, and a newline. */
void vg_printable_append_line(GString *to, const char *fmt, ...) G_GNUC_PRINTF(2, 3);

/* One argument for a shell. What vg_printable_text() would change is written as $'...' with octal
 * escapes, which bash, ksh and zsh read back as it was. The caller frees it. */
char *vg_printable_quote(const char *argument);

#endif
