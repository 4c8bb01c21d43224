/* SPDX-License-Identifier: Apache-2.0
 *
 * The encoding of protocol buffers (https://protobuf.dev/programming-guides/encoding/): a message
 * is a sequence of fields, each with its own number and a value. A nested message is built in a
 * buffer first and then put as bytes. Any thread, each with its own buffers.
 */
#ifndef VG_TRACE_PERFETTO_WIRE_H
#define VG_TRACE_PERFETTO_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include <glib.h>

/* The longest varint. */
#define VG_WIRE_VARINT_MAX 10

/* Writes a varint without a field number to ret, and returns its length in bytes. */
size_t vg_wire_varint(uint64_t value, uint8_t ret[VG_WIRE_VARINT_MAX]);

/* int32, int64, uint32, uint64, bool, enum; negative values are given as (uint64_t)(int64_t). */
void vg_wire_put_uint(GString *to, uint32_t field, uint64_t value);

void vg_wire_put_fixed64(GString *to, uint32_t field, uint64_t value);
void vg_wire_put_double(GString *to, uint32_t field, double value);

/* A string, which must be UTF-8, or bytes. */
void vg_wire_put_text(GString *to, uint32_t field, const char *text);

void vg_wire_put_message(GString *to, uint32_t field, const GString *message);

#endif
