/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats log messages so that each value remains recognisable as one value. In a string between
 * double quotes, `"` and `\` become `\"` and `\\`. A string after KEY= without quotes gets quotes
 * if it contains a blank, a quote or a backslash, or is empty. Any thread.
 */
#ifndef VG_BASE_LOG_TEXT_H
#define VG_BASE_LOG_TEXT_H

#include <stdarg.h>

/* Formats like vprintf(), except `%n`, and takes the arguments. The caller frees the result. */
char *vg_log_text_format(const char *fmt, va_list args) __attribute__((format(printf, 1, 0)));

/* Returns the end of a value in a formatted message: a blank, or the position after the closing
 * quote. */
const char *vg_log_text_end(const char *value);

/* Copies the value between `value` and `end` in its original form, before it was quoted; the caller
 * frees it. */
char *vg_log_text_copy(const char *value, const char *end);

#endif
