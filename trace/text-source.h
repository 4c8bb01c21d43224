/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of a file or of memory, unpacked if it is gzip, xz, zstd or bzip2. Only one block of the
 * input and one of the text are in memory at a time. One thread at a time.
 */
#ifndef VG_TRACE_TEXT_SOURCE_H
#define VG_TRACE_TEXT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

/* A stretch of text, not NUL-terminated; s is NULL where there is none. */
struct vg_text_span {
    const char *s;
    size_t len;
};

struct vg_text_raw_line {
    struct vg_text_span text; /* without line end; valid until the next call; empty if too long */
    int64_t offset;           /* of its first byte, in bytes of the unpacked text */
    bool too_long;            /* more than VG_TEXT_LINE_MAX bytes */
};

typedef struct vg_text_source vg_text_source;

vg_text_source *vg_text_source_open(const char *path, GError **err);
vg_text_source *vg_text_source_memory(const char *text, size_t size); /* text is borrowed */
void vg_text_source_free(vg_text_source *source);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_text_source, vg_text_source_free)

/* The same input once more from its beginning; NULL where that cannot be done (a pipe). */
vg_text_source *vg_text_source_again(const vg_text_source *source);

/* Bytes begin to end of the unpacked text, with less memory; begin is that of a line. NULL and *err
 * where it cannot be opened once more. */
vg_text_source *vg_text_source_part(const vg_text_source *source, int64_t begin, int64_t end,
                                    GError **err);

/* False at the end. A last line that damage cut off is not delivered. */
bool vg_text_source_next(vg_text_source *source, struct vg_text_raw_line *ret);

/* Bytes of the unpacked text delivered so far. */
int64_t vg_text_source_offset(const vg_text_source *source);

/* Why the text ended before the input did, or NULL; static or owned by the source. */
const char *vg_text_source_damage(const vg_text_source *source);

/* Part of the input consumed, 0..1; 0 for a pipe. */
double vg_text_source_progress(const vg_text_source *source);

/* Copies the first bytes of the unpacked text that is not delivered yet. */
size_t vg_text_source_head(vg_text_source *source, char *buf, size_t size);

/* Returns how the input is packed, as "gzip"; NULL: it is plain. */
const char *vg_text_source_packing(const vg_text_source *source);

#endif
