/* SPDX-License-Identifier: Apache-2.0
 *
 * "Did you mean": the word of a list that a mistyped one is likely to be.
 */
#ifndef VG_CLI_NEAREST_H
#define VG_CLI_NEAREST_H

#include <stddef.h>

/* Counts letters that are missing, too many, wrong or swapped: at most 2, and fewer than half of
 * the word's. NULL: no word is near, or text is longer than any command. */
const char *vg_nearest(const char *text, const char *const *words, size_t n);

#endif
