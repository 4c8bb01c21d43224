/* SPDX-License-Identifier: Apache-2.0
 *
 * The stream that a program's state is written to: a header, then one record per object.
 *
 *   head    "VGPUOCL" and a zero byte, the version (u32), and a zero (u32)
 *   record  type (u32), a zero (u32), id (u64), bytes of what follows (u64), what follows
 *
 * Numbers have this machine's byte order. Lists and texts are their count (u64) and their
 * elements, without padding. The contents of memory start at the next multiple of 4096 in the
 * stream. The first record names the device, and a record of type VG_CL_NONE ends the stream.
 * state.h describes the records.
 */
#ifndef VG_OPENCL_TRACK_STREAM_H
#define VG_OPENCL_TRACK_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VG_CL_STREAM_VERSION 1
#define VG_CL_STREAM_ALIGN   4096

/* Writes into memory that is reserved larger than needed. After a failure, nothing more is
 * written. */
struct vg_cl_writer {
    unsigned char *base;
    size_t size, used;
    size_t record; /* start of the current record */
    bool failed;
};

/* Reserves ROOM bytes, which use memory only as they are written. Neither children nor core files
 * get them. Returns false with errno on failure. */
bool vg_cl_writer_open(struct vg_cl_writer *writer, size_t room);

void vg_cl_writer_begin(struct vg_cl_writer *writer, uint32_t type, uint64_t id);
void vg_cl_writer_end(struct vg_cl_writer *writer);
void vg_cl_put_u64(struct vg_cl_writer *writer, uint64_t value);
void vg_cl_put_bytes(struct vg_cl_writer *writer, const void *bytes, uint64_t size);

/* Writes a text. NULL is different from an empty text. */
void vg_cl_put_text(struct vg_cl_writer *writer, const char *text);

/* Returns SIZE aligned bytes for the caller to fill, or NULL if they do not fit. */
void *vg_cl_put_room(struct vg_cl_writer *writer, uint64_t size);

/* Ends the stream. Returns false if writing failed. */
bool vg_cl_writer_finish(struct vg_cl_writer *writer);

/* Unmaps and closes the stream. */
void vg_cl_writer_close(struct vg_cl_writer *writer);

/* Reads untrusted data. A length beyond the end fails the reader; all later reads return 0 or
 * NULL. */
struct vg_cl_reader {
    const unsigned char *base, *at, *end;
    bool failed;
};

struct vg_cl_record {
    uint32_t type;
    uint64_t id;
    struct vg_cl_reader content;
};

/* Starts to read SIZE bytes at BASE, which must be aligned. Returns false if the header is
 * wrong. */
bool vg_cl_reader_open(struct vg_cl_reader *reader, const void *base, size_t size);

/* Reads the next record. Returns false at the end or if the reader has failed. */
bool vg_cl_reader_next(struct vg_cl_reader *reader, struct vg_cl_record *record);

uint64_t vg_cl_get_u64(struct vg_cl_reader *reader);

/* Returns bytes borrowed from the stream, and their number in *SIZE. */
const void *vg_cl_get_bytes(struct vg_cl_reader *reader, uint64_t *size);

/* Returns a borrowed text, or NULL if it was written as NULL. */
const char *vg_cl_get_text(struct vg_cl_reader *reader);

/* Returns SIZE aligned bytes, borrowed. */
const void *vg_cl_get_room(struct vg_cl_reader *reader, uint64_t size);

#endif
