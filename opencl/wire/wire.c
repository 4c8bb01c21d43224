/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "opencl/wire/wire.h"

#include <stdlib.h>
#include <string.h>

void
vg_wire_out_begin(struct vg_wire_out *out)
{
    out->bytes = (unsigned char *)out->small;
    out->size = 0;
    out->room = sizeof out->small;
    out->is_bad = false;
}

void
vg_wire_out_end(struct vg_wire_out *out)
{
    if (out->bytes != (unsigned char *)out->small)
        free(out->bytes);
    vg_wire_out_begin(out);
}

/* Allocates space for SIZE more bytes, which must be filled. Returns NULL if there is none. */
static unsigned char *
wire_take(struct vg_wire_out *out, size_t size)
{
    if (out->is_bad || size > VG_WIRE_BODY_MAX - out->size) {
        out->is_bad = true;
        return NULL;
    }
    if (size > out->room - out->size) {
        size_t room = (out->size + size) * 2;
        bool is_small = out->bytes == (unsigned char *)out->small;
        unsigned char *more = realloc(is_small ? NULL : out->bytes, room);
        if (!more) {
            out->is_bad = true;
            return NULL;
        }
        if (is_small)
            memcpy(more, out->small, out->size);
        out->bytes = more;
        out->room = room;
    }
    unsigned char *at = out->bytes + out->size;
    out->size += size;
    return at;
}

void
vg_wire_put(struct vg_wire_out *out, uint64_t number)
{
    unsigned char *at = wire_take(out, sizeof number);

    if (at)
        memcpy(at, &number, sizeof number);
}

void
vg_wire_put_list(struct vg_wire_out *out, const void *bytes, size_t size)
{
    vg_wire_put(out, bytes ? size : VG_WIRE_NONE);
    if (!bytes || size == 0)
        return;
    size_t whole = (size + 7) & ~(size_t)7;
    unsigned char *at = size <= VG_WIRE_BODY_MAX ? wire_take(out, whole) : NULL;
    if (!at) {
        out->is_bad = true;
        return;
    }
    memset(at + whole - 8, 0, 8);
    memcpy(at, bytes, size);
}

void
vg_wire_put_string(struct vg_wire_out *out, const char *text)
{
    vg_wire_put_list(out, text, text ? strlen(text) + 1 : 0);
}

void
vg_wire_in_begin(struct vg_wire_in *in, const void *bytes, size_t size)
{
    in->at = bytes;
    in->end = bytes ? in->at + size : NULL;
    in->is_bad = false;
}

static void
wire_spoil(struct vg_wire_in *in)
{
    in->is_bad = true;
    in->at = in->end;
}

uint64_t
vg_wire_get(struct vg_wire_in *in)
{
    uint64_t number;

    if ((size_t)(in->end - in->at) < sizeof number) {
        wire_spoil(in);
        return 0;
    }
    memcpy(&number, in->at, sizeof number);
    in->at += sizeof number;
    return number;
}

const void *
vg_wire_get_list(struct vg_wire_in *in, size_t *size)
{
    uint64_t bytes = vg_wire_get(in);

    *size = 0;
    if (bytes == VG_WIRE_NONE || in->is_bad)
        return NULL;
    if (bytes > (uint64_t)(in->end - in->at) ||
        ((bytes + 7) & ~UINT64_C(7)) > (uint64_t)(in->end - in->at)) {
        wire_spoil(in);
        return NULL;
    }
    const void *list = in->at;
    in->at += (bytes + 7) & ~UINT64_C(7);
    *size = bytes;
    return list;
}

const void *
vg_wire_get_array(struct vg_wire_in *in, uint64_t n, size_t each)
{
    size_t size;
    const void *list = vg_wire_get_list(in, &size);

    if (list && (n > VG_WIRE_BODY_MAX || size != n * each)) {
        wire_spoil(in);
        return NULL;
    }
    return list;
}

const char *
vg_wire_get_string(struct vg_wire_in *in)
{
    size_t size;
    const char *text = vg_wire_get_list(in, &size);

    if (text && (size == 0 || text[size - 1] != '\0')) {
        wire_spoil(in);
        return NULL;
    }
    return text;
}

/* ---- rows ---- */

size_t
vg_wire_rows_size(const struct vg_wire_rows *rows)
{
    size_t slice, all;

    if (__builtin_mul_overflow(rows->row, rows->rows, &slice) ||
        __builtin_mul_overflow(slice, rows->slices, &all) || all > VG_WIRE_DATA_MAX)
        return 0;
    return all;
}

bool
vg_wire_rows_are_one(const struct vg_wire_rows *rows)
{
    return (rows->rows == 1 || rows->row_pitch == rows->row) &&
           (rows->slices == 1 || rows->slice_pitch == rows->row * rows->rows);
}

void
vg_wire_rows_scatter(const struct vg_wire_rows *rows, const void *from)
{
    const unsigned char *at = from;

    for (size_t z = 0; z < rows->slices; z++)
        for (size_t y = 0; y < rows->rows; y++, at += rows->row)
            memcpy(rows->at + z * rows->slice_pitch + y * rows->row_pitch, at, rows->row);
}

void
vg_wire_rows_gather(const struct vg_wire_rows *rows, void *to)
{
    unsigned char *at = to;

    for (size_t z = 0; z < rows->slices; z++)
        for (size_t y = 0; y < rows->rows; y++, at += rows->row)
            memcpy(at, rows->at + z * rows->slice_pitch + y * rows->row_pitch, rows->row);
}
