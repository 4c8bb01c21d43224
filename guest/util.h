/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent's replacement for GLib: memory, text, small files, a clock, the log. If memory runs
 * out, the process ends, and systemd starts it again. Any process of the agent; nothing is shared.
 */
#ifndef VG_GUEST_UTIL_H
#define VG_GUEST_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <syslog.h>

/* Frees the variable's memory when its scope ends. */
#define vg_guest_auto __attribute__((cleanup(vg_guest_free_at)))
void vg_guest_free_at(void *pointer);

/* Allocates zeroed memory. The caller frees the result of this and of all functions below. */
void *vg_guest_alloc(size_t size);
/* Changes the size of a block, as realloc() does. */
void *vg_guest_grow(void *memory, size_t size);
char *vg_guest_copy(const char *text);
char *vg_guest_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints into an array of the caller, and truncates what does not fit. */
void vg_guest_put(char *to, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Copies at most max bytes from the end of the text, as valid UTF-8 without control characters
 * except newlines: every other byte becomes '?'. */
char *vg_guest_clean(const char *text, size_t max);

/* Quotes untrusted text for a sentence or a log: at most max bytes of it, then "...", without
 * control characters; its double quotes and backslashes become '. */
char *vg_guest_quote(const char *text, size_t max);

/* Reads the file's first size - 1 bytes, ends them with a NUL, and drops blanks at their end.
 * Returns 0, or an errno. */
int vg_guest_read_file(const char *path, char *ret_text, size_t size);

/* Writes to an existing file with one write, as sysfs requires. Returns 0, or an errno. */
int vg_guest_write_file(const char *path, const char *text);

/* Return the monotonic time, in ms and in us. */
int64_t vg_guest_now_ms(void);
int64_t vg_guest_now_us(void);

/* Writes to stderr. LOG_ERR means that an operator must act, LOG_WARNING that the agent continues,
 * LOG_NOTICE that a state has changed. */
void vg_guest_log(int priority, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
