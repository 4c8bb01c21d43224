/* SPDX-License-Identifier: Apache-2.0
 *
 * Wraps text at the width of the terminal. Any thread.
 */
#ifndef VG_CLI_FOLD_H
#define VG_CLI_FOLD_H

#include <stddef.h>

#include <glib.h>

/* Returns the number of columns if stdout is a terminal. Otherwise returns 0, and nothing is
 * wrapped. */
size_t vg_fold_terminal(void);

/* Returns the number of columns that a line of text occupies. */
size_t vg_fold_columns(const char *text);

/* Appends text, with line feeds where a line would exceed `width` columns. It breaks at a blank. A
 * word longer than a line is broken after a mark such as '-', or otherwise anywhere. Continuation
 * lines are indented by `indent` blanks; existing line starts are unchanged. If width is 0,
 * appends the text unchanged. */
void vg_fold_append(GString *to, const char *text, size_t indent, size_t width);

/* The same for text that programs may parse: words longer than a line are not broken. */
void vg_fold_append_words(GString *to, const char *text, size_t indent, size_t width);

#endif
