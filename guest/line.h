/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes in, lines out, in bounded memory. A line that is too long is dropped up to its end and told
 * once. Belongs to one thread.
 */
#ifndef VG_GUEST_LINE_H
#define VG_GUEST_LINE_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of a line from the host, without its newline. */
#define VG_GUEST_LINE_MAX 65536

/* Text is not ended by a NUL; NULL: a line was too long and is dropped. Empty lines are not told.
 */
typedef void vg_guest_line_fn(void *user, const char *text, size_t size);

struct vg_guest_line {
    /* VG_GUEST_LINE_MAX bytes once something came. */
    char *data;
    size_t size;
    bool dropping;
};

void vg_guest_line_feed(struct vg_guest_line *line, const char *data, size_t size,
                        vg_guest_line_fn *on_line, void *user);

/* Forgets a half line. */
void vg_guest_line_reset(struct vg_guest_line *line);
void vg_guest_line_clear(struct vg_guest_line *line);

#endif
