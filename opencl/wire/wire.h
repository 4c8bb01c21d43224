/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program's library and a proxy say to each other. A message is a head, a body of numbers
 * and lists, and data that are not looked into. Everything is in the byte order of the machine, and
 * the hello says which that is.
 *
 * A body is a sequence of 64-bit fields. A number or the id of an object takes one; a list takes
 * one with its bytes, or VG_WIRE_NONE where the program gave NULL, and then the bytes, filled up to
 * a multiple of 8. opencl/api/generate.py writes which fields each function of OpenCL has.
 *
 * The ids of objects are the library's own, so that nothing has to be waited for when an object is
 * made. 0 is no object; the first ones are the platforms and their devices, each platform before
 * its devices, as the answer to the hello counts them.
 *
 * Whoever reads takes nothing for granted: lists end where the body does, and what is wrong makes
 * the rest of the body read as zeros and sets is_bad.
 */
#ifndef VG_OPENCL_WIRE_WIRE_H
#define VG_OPENCL_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VG_WIRE_MAGIC   UINT64_C(0x3144555047567565) /* "euVGPUD1" */
#define VG_WIRE_VERSION 2
#define VG_WIRE_NONE    UINT64_MAX

#define VG_WIRE_BODY_MAX (UINT32_C(64) << 20) /* bytes of a body */
#define VG_WIRE_DATA_MAX (UINT64_C(1) << 36)  /* bytes of data */
#define VG_WIRE_IDS_MAX  (UINT64_C(1) << 20)  /* objects of a program at a time */

/* A number that the vendor has not written. */
#define VG_WIRE_UNTOUCHED INT32_MIN

enum {
    VG_WIRE_LATER = 1, /* no answer is wanted; an error comes with a later one */
    VG_WIRE_WAITS = 2, /* it may wait for what the program does after it, in another thread */
    /* of links with memory in common; the data are no part of the message: */
    VG_WIRE_STAGED = 4, /* they are at `at` */
    VG_WIRE_ROOM = 8,   /* those of the answer have room at `at`; of the proxy: they are there */
};

struct vg_wire_head {
    uint32_t size;   /* bytes of the body, which follows */
    uint16_t op;     /* enum vg_wire_op; 0 and more of the proxy: enum vg_wire_said */
    uint16_t flags;  /* VG_WIRE_LATER and so on */
    uint64_t number; /* of a message of the library; an answer has that of its question */
    uint64_t data;   /* bytes after the body, or in an area */
    uint64_t at;     /* of an area in the memory that both have in common */
};

/* Bytes in rows that lie apart, as those of images and parts of buffers do. On the way they lie in
 * one row. */
struct vg_wire_rows {
    unsigned char *at;
    size_t row, rows, slices; /* bytes of a row, rows of a slice, slices */
    size_t row_pitch, slice_pitch;
};

#define VG_WIRE_WHY_MAX 200 /* bytes */

/* What the proxy sends. */
enum vg_wire_said {
    VG_WIRE_ANSWER,
    VG_WIRE_READ,  /* data of a command that has read: its token */
    VG_WIRE_EVENT, /* an event has come to a status: its token, and the status */
    VG_WIRE_LONG,  /* the last one: a command has kept the device from others for so many seconds */
    VG_WIRE_MUTE,  /* the last one: who gives the device says nothing for so many seconds */
    VG_WIRE_ENDED, /* the last one: its body says why, in up to VG_WIRE_WHY_MAX bytes of text */
};

/* A body that is written. It begins in `small`, and goes on in memory of its own. */
struct vg_wire_out {
    unsigned char *bytes;
    size_t size, room;
    bool is_bad; /* there was no memory, or it is too long */
    uint64_t small[64];
};

void vg_wire_out_begin(struct vg_wire_out *out);
void vg_wire_out_end(struct vg_wire_out *out); /* frees; it may be begun again */
void vg_wire_put(struct vg_wire_out *out, uint64_t number);
void vg_wire_put_list(struct vg_wire_out *out, const void *bytes, size_t size);
void vg_wire_put_string(struct vg_wire_out *out, const char *text); /* with the NUL; or NULL */

/* A body that is read: borrowed bytes, which begin at a multiple of 8. */
struct vg_wire_in {
    const unsigned char *at, *end;
    bool is_bad;
};

void vg_wire_in_begin(struct vg_wire_in *in, const void *bytes, size_t size);
uint64_t vg_wire_get(struct vg_wire_in *in);

/* Returns a list inside of the body, with its *SIZE in bytes; NULL: there is none. */
const void *vg_wire_get_list(struct vg_wire_in *in, size_t *size);

/* The same of exactly N elements of EACH bytes, which is_bad otherwise. */
const void *vg_wire_get_array(struct vg_wire_in *in, uint64_t n, size_t each);

/* Returns how many bytes ROWS have; 0: none, or more than can be. */
size_t vg_wire_rows_size(const struct vg_wire_rows *rows);
bool vg_wire_rows_are_one(const struct vg_wire_rows *rows);
void vg_wire_rows_scatter(const struct vg_wire_rows *rows, const void *from);
void vg_wire_rows_gather(const struct vg_wire_rows *rows, void *to);

/* A string, which ends in the body. */
const char *vg_wire_get_string(struct vg_wire_in *in);

#endif
