/* SPDX-License-Identifier: Apache-2.0
 *
 * The stream that a program's state is written to: a head, then records, each of one object.
 *
 *   head    "VGPUOCL" and a zero byte, the version (u32), and a zero (u32)
 *   record  type (u32), a zero (u32), id (u64), bytes of what follows (u64), what follows
 *
 * Numbers are of this machine's order. Lists and texts are their count (u64) and their elements,
 * without padding; the contents of memory begin at the next multiple of 4096 of the stream. The
 * first record names the device, and a record of type VG_CL_NONE ends the stream. state.h says what
 * is in each.
 */
#ifndef VG_OPENCL_TRACK_STREAM_H
#define VG_OPENCL_TRACK_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VG_CL_STREAM_VERSION 1
#define VG_CL_STREAM_ALIGN   4096

/* Writes into memory that is larger than what will be written. Once it has failed, nothing more is
 * written. */
struct vg_cl_writer {
    unsigned char *base;
    size_t size, used;
    size_t record; /* where the record that is being written begins */
    bool failed;
};

/* Takes room for ROOM bytes, which cost memory as they are written; neither children nor core files
 * get them. Returns false with errno. */
bool vg_cl_writer_open(struct vg_cl_writer *writer, size_t room);

void vg_cl_writer_begin(struct vg_cl_writer *writer, uint32_t type, uint64_t id);
void vg_cl_writer_end(struct vg_cl_writer *writer);
void vg_cl_put_u64(struct vg_cl_writer *writer, uint64_t value);
void vg_cl_put_bytes(struct vg_cl_writer *writer, const void *bytes, uint64_t size);

/* A text; NULL is not the same as the empty one. */
void vg_cl_put_text(struct vg_cl_writer *writer, const char *text);

/* Returns SIZE aligned bytes to be filled by the caller; NULL if there is no room. */
void *vg_cl_put_room(struct vg_cl_writer *writer, uint64_t size);

/* Ends the stream. Returns false if writing has failed. */
bool vg_cl_writer_finish(struct vg_cl_writer *writer);

/* Unmaps and closes. */
void vg_cl_writer_close(struct vg_cl_writer *writer);

/* Reads what is not trusted: a length that goes beyond the end fails the reader, and all that is
 * read from then on is 0 or NULL. */
struct vg_cl_reader {
    const unsigned char *base, *at, *end;
    bool failed;
};

struct vg_cl_record {
    uint32_t type;
    uint64_t id;
    struct vg_cl_reader content;
};

/* Begins to read SIZE bytes at BASE, which is aligned; false if the head is another's. */
bool vg_cl_reader_open(struct vg_cl_reader *reader, const void *base, size_t size);

/* Reads the next record; false at the end, or if the reader has failed. */
bool vg_cl_reader_next(struct vg_cl_reader *reader, struct vg_cl_record *record);

uint64_t vg_cl_get_u64(struct vg_cl_reader *reader);

/* Returns the bytes, which are borrowed from the stream, and their number. */
const void *vg_cl_get_bytes(struct vg_cl_reader *reader, uint64_t *size);

/* Returns the text, borrowed; NULL: there is none. */
const char *vg_cl_get_text(struct vg_cl_reader *reader);

/* Returns SIZE aligned bytes, borrowed. */
const void *vg_cl_get_room(struct vg_cl_reader *reader, uint64_t size);

#endif
