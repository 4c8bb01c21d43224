/* SPDX-License-Identifier: Apache-2.0
 *
 * Text that goes on below where a line of the terminal ends. Any thread.
 */
#ifndef VG_CLI_FOLD_H
#define VG_CLI_FOLD_H

#include <stddef.h>

#include <glib.h>

/* Returns the columns of the terminal that stdout is; 0 if it is none, and nothing is folded. */
size_t vg_fold_terminal(void);

/* Returns the columns that a line of text takes. */
size_t vg_fold_columns(const char *text);

/* Appends text with line feeds where a line would pass `width` columns: at a blank, in a word that
 * is longer than a line behind a mark such as '-', or else in the middle of it. Lines begin with
 * `indent` blanks, but for those that the text begins itself. width 0: the text as it is. */
void vg_fold_append(GString *to, const char *text, size_t indent, size_t width);

/* The same for what programs may read, too: words that are longer than a line stay whole. */
void vg_fold_append_words(GString *to, const char *text, size_t indent, size_t width);

#endif
