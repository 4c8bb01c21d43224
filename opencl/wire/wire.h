/* SPDX-License-Identifier: Apache-2.0
 *
 * The protocol between a program's library and a proxy. A message has a header, a body of numbers
 * and lists, and opaque data. The byte order is the machine's; the hello identifies it.
 *
 * A body is a sequence of 64-bit fields. A number or an object's id takes one field. A list takes
 * one field with its size in bytes, or VG_WIRE_NONE if the program passed NULL, followed by the
 * bytes, padded to a multiple of 8. opencl/api/generate.py defines the fields of each OpenCL
 * function.
 *
 * The library assigns the ids of objects, so that it need not wait when it creates one. 0 is not
 * an object. The first ids are the platforms and their devices, each platform before its devices,
 * in the order of the answer to the hello.
 *
 * Readers trust nothing. Lists end where the body does. After an error, the rest of the body reads
 * as zeros, and is_bad is set.
 */
#ifndef VG_OPENCL_WIRE_WIRE_H
#define VG_OPENCL_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VG_WIRE_MAGIC   UINT64_C(0x3144555047567565) /* "euVGPUD1" */
#define VG_WIRE_VERSION 2
#define VG_WIRE_NONE    UINT64_MAX

/* In the hello after the version; earlier libraries have nothing there. */
#define VG_WIRE_TAKES_OUTPUT 1

#define VG_WIRE_BODY_MAX (UINT32_C(64) << 20) /* bytes of a body */
#define VG_WIRE_DATA_MAX (UINT64_C(1) << 36)  /* bytes of data */
#define VG_WIRE_IDS_MAX  (UINT64_C(1) << 20)  /* objects of a program at a time */

/* Initial value of a number, to detect that the vendor has not written it. */
#define VG_WIRE_UNTOUCHED INT32_MIN

enum {
    VG_WIRE_LATER = 1, /* no answer is expected; an error is reported with a later answer */
    VG_WIRE_WAITS =
        2, /* it may wait for later actions of the program, so it needs another thread */
    /* on links with shared memory; the data are not part of the message: */
    VG_WIRE_STAGED = 4, /* the data are at `at` */
    VG_WIRE_ROOM = 8, /* the answer's data have space at `at`; from the proxy: the data are there */
};

struct vg_wire_head {
    uint32_t size;   /* bytes of the body, which follows */
    uint16_t op;     /* enum vg_wire_op; from the proxy: enum vg_wire_said, from 0 */
    uint16_t flags;  /* VG_WIRE_LATER and the other flags */
    uint64_t number; /* the library's message number; an answer repeats that of its request */
    uint64_t data;   /* bytes after the body or in an area */
    uint64_t at;     /* position of an area in the shared memory */
};

/* Rows of bytes with gaps between them, as in regions of images and buffers. They are sent without
 * the gaps. */
struct vg_wire_rows {
    unsigned char *at;
    size_t row, rows, slices; /* bytes per row, rows per slice, number of slices */
    size_t row_pitch, slice_pitch;
};

#define VG_WIRE_WHY_MAX 200 /* bytes */

/* Messages from the proxy. */
enum vg_wire_said {
    VG_WIRE_ANSWER,
    VG_WIRE_READ,   /* data of a completed read command: its token */
    VG_WIRE_EVENT,  /* a change of an event's status: its token and the status */
    VG_WIRE_LONG,   /* last message: a command has kept the device from others for this number of
                       seconds */
    VG_WIRE_MUTE,   /* last message: the proxy, which schedules the device, has been silent for this
                       number of seconds */
    VG_WIRE_ENDED,  /* last message: its body has the reason, a text of up to VG_WIRE_WHY_MAX bytes
                     */
    VG_WIRE_OUTPUT, /* data that kernels have printed, and the number of bytes that were dropped.
                       Only for a library with VG_WIRE_TAKES_OUTPUT */
};

/* A body being written. It starts in `small` and moves to allocated memory when that is full. */
struct vg_wire_out {
    unsigned char *bytes;
    size_t size, room;
    bool is_bad; /* memory was exhausted, or it is too long */
    uint64_t small[64];
};

void vg_wire_out_begin(struct vg_wire_out *out);
void vg_wire_out_end(struct vg_wire_out *out); /* frees the memory; OUT can be reused */
void vg_wire_put(struct vg_wire_out *out, uint64_t number);
void vg_wire_put_list(struct vg_wire_out *out, const void *bytes, size_t size);
void vg_wire_put_string(struct vg_wire_out *out,
                        const char *text); /* including the NUL; TEXT may be NULL */

/* A body being read: borrowed bytes, aligned to 8. */
struct vg_wire_in {
    const unsigned char *at, *end;
    bool is_bad;
};

void vg_wire_in_begin(struct vg_wire_in *in, const void *bytes, size_t size);
uint64_t vg_wire_get(struct vg_wire_in *in);

/* Returns a list inside the body with its *SIZE in bytes, or NULL if it was NULL. */
const void *vg_wire_get_list(struct vg_wire_in *in, size_t *size);

/* As vg_wire_get_list(), for exactly N elements of EACH bytes. Sets is_bad for any other size. */
const void *vg_wire_get_array(struct vg_wire_in *in, uint64_t n, size_t each);

/* Returns the total bytes of ROWS, or 0 if empty or too large. */
size_t vg_wire_rows_size(const struct vg_wire_rows *rows);
bool vg_wire_rows_are_one(const struct vg_wire_rows *rows);
void vg_wire_rows_scatter(const struct vg_wire_rows *rows, const void *from);
void vg_wire_rows_gather(const struct vg_wire_rows *rows, void *to);

/* Returns a string inside the body, NUL-terminated. */
const char *vg_wire_get_string(struct vg_wire_in *in);

#endif
