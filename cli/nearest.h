/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the word that a mistyped one was probably meant to be.
 */
#ifndef VG_CLI_NEAREST_H
#define VG_CLI_NEAREST_H

#include <stddef.h>

/* Counts missing, extra, wrong or swapped letters: at most 2, and fewer than half of the word's
 * letters. Returns NULL if no word is near or text is longer than any command. */
const char *vg_nearest(const char *text, const char *const *words, size_t n);

#endif
