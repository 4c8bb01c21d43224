/* SPDX-License-Identifier: Apache-2.0
 *
 * Splits a stream of bytes into lines, in bounded memory. A line that is too long is dropped up to
 * its end and reported once. Belongs to one thread.
 */
#ifndef VG_GUEST_LINE_H
#define VG_GUEST_LINE_H

#include <stdbool.h>
#include <stddef.h>

/* The maximum length of a line from the host in bytes, without its newline. */
#define VG_GUEST_LINE_MAX 65536

/* Receives a line, which does not end with a NUL. NULL reports that a line was too long and is
 * dropped. Empty lines are skipped. */
typedef void vg_guest_line_fn(void *user, const char *text, size_t size);

struct vg_guest_line {
    /* A buffer of VG_GUEST_LINE_MAX bytes, once a byte has come. */
    char *data;
    size_t size;
    bool dropping;
};

void vg_guest_line_feed(struct vg_guest_line *line, const char *data, size_t size,
                        vg_guest_line_fn *on_line, void *user);

/* Drops an unfinished line. */
void vg_guest_line_reset(struct vg_guest_line *line);
void vg_guest_line_clear(struct vg_guest_line *line);

#endif
