/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats log messages so that no value can pass for more than one: in a string between double
 * quotes, `"` and `\` become `\"` and `\\`. A string behind KEY= that has no quotes gets them if it
 * has a blank, a quote or a backslash, or is empty. Any thread.
 */
#ifndef VG_BASE_LOG_TEXT_H
#define VG_BASE_LOG_TEXT_H

#include <stdarg.h>

/* Formats as vprintf() does, but for `%n`, and takes the arguments. The caller frees the result. */
char *vg_log_text_format(const char *fmt, va_list args) __attribute__((format(printf, 1, 0)));

/* Finds the end of a value in such a message: a blank, or behind the closing quote. */
const char *vg_log_text_end(const char *value);

/* Copies a value, from there to its end, as it was before; the caller frees it. */
char *vg_log_text_copy(const char *value, const char *end);

#endif
