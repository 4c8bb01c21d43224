/* SPDX-License-Identifier: Apache-2.0
 *
 * The lines of a file or of memory, decompressed if gzip, xz, zstd or bzip2. Only one block of the
 * input and one of the text are in memory at a time. One thread at a time.
 */
#ifndef VG_TRACE_TEXT_SOURCE_H
#define VG_TRACE_TEXT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>

/* A part of a text, not NUL-terminated; s is NULL if it does not exist. */
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

/* Returns a second source of the same input from its start, or NULL if that is not possible (a
 * pipe). */
vg_text_source *vg_text_source_again(const vg_text_source *source);

/* Returns a source of the bytes from begin to end of the unpacked text, which uses less memory.
 * The first byte must be the start of a line. Returns NULL and *err if the input cannot be
 * reopened. */
vg_text_source *vg_text_source_part(const vg_text_source *source, int64_t begin, int64_t end,
                                    GError **err);

/* Returns false at the end. An incomplete last line in a damaged file is not delivered. */
bool vg_text_source_next(vg_text_source *source, struct vg_text_raw_line *ret);

/* Returns the number of bytes of the unpacked text delivered until now. */
int64_t vg_text_source_offset(const vg_text_source *source);

/* Returns why the text ended before the input did, or NULL. Static or owned by the source. */
const char *vg_text_source_damage(const vg_text_source *source);

/* Returns the fraction (0..1) of the input consumed; 0 for a pipe. */
double vg_text_source_progress(const vg_text_source *source);

/* Copies the first bytes of the unpacked text that are not delivered yet. */
size_t vg_text_source_head(vg_text_source *source, char *buf, size_t size);

/* Returns the compression format, such as "gzip", or NULL if the input is not compressed. */
const char *vg_text_source_packing(const vg_text_source *source);

#endif
