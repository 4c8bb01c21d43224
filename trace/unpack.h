/* SPDX-License-Identifier: Apache-2.0
 *
 * Unpacks gzip, xz, zstd and bzip2 a piece at a time. One thread at a time.
 */
#ifndef VG_TRACE_UNPACK_H
#define VG_TRACE_UNPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory for unpacking one file. xz -9 needs 65 MiB, and zstd --ultra -22 needs 128 MiB. */
#define VG_UNPACK_MEMORY_MAX (UINT64_C(1) << 28)

/* The remaining packed bytes, and the remaining space for unpacked bytes. */
struct vg_unpack_io {
    const uint8_t *in;
    size_t in_len;
    char *out;
    size_t out_len;
};

enum vg_unpack_result {
    VG_UNPACK_MORE,   /* there may be more, or another call needs more input */
    VG_UNPACK_END,    /* a member ends here; more members may follow */
    VG_UNPACK_DAMAGED /* *ret_why is the reason: a static string, or one owned by the unpacker */
};

typedef struct vg_unpack vg_unpack;

/* Returns NULL if a file that starts with these bytes is not compressed. */
vg_unpack *vg_unpack_new(const uint8_t *head, size_t len);
void vg_unpack_free(vg_unpack *unpack); /* NULL is fine */

/* Returns the name of the format. */
const char *vg_unpack_name(const vg_unpack *unpack);

/* Returns whether another member can start with this byte. */
bool vg_unpack_continues(const vg_unpack *unpack, uint8_t byte);

/* Unpacks as much as fits from io->in to io->out. A call after the end of a member starts the
 * next. */
enum vg_unpack_result vg_unpack_step(vg_unpack *unpack, struct vg_unpack_io *io,
                                     const char **ret_why);

#endif
