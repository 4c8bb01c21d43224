/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/perfetto-wire.h"

#include <string.h>

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2 };

size_t
vg_wire_varint(uint64_t value, uint8_t ret[VG_WIRE_VARINT_MAX])
{
    size_t n = 0;

    for (; value >= 0x80; value >>= 7)
        ret[n++] = (uint8_t)(value | 0x80);
    ret[n++] = (uint8_t)value;
    return n;
}

static void
put_varint(GString *to, uint64_t value)
{
    uint8_t bytes[VG_WIRE_VARINT_MAX];

    g_string_append_len(to, (const char *)bytes, (gssize)vg_wire_varint(value, bytes));
}

static void
put_tag(GString *to, uint32_t field, enum wire_type type)
{
    put_varint(to, (uint64_t)field << 3 | type);
}

void
vg_wire_put_uint(GString *to, uint32_t field, uint64_t value)
{
    put_tag(to, field, WIRE_VARINT);
    put_varint(to, value);
}

void
vg_wire_put_fixed64(GString *to, uint32_t field, uint64_t value)
{
    uint64_t little = GUINT64_TO_LE(value);

    put_tag(to, field, WIRE_FIXED64);
    g_string_append_len(to, (const char *)&little, sizeof(little));
}

void
vg_wire_put_double(GString *to, uint32_t field, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    vg_wire_put_fixed64(to, field, bits);
}

static void
put_bytes(GString *to, uint32_t field, const char *bytes, size_t n)
{
    put_tag(to, field, WIRE_BYTES);
    put_varint(to, n);
    g_string_append_len(to, bytes, (gssize)n);
}

void
vg_wire_put_text(GString *to, uint32_t field, const char *text)
{
    put_bytes(to, field, text, strlen(text));
}

void
vg_wire_put_message(GString *to, uint32_t field, const GString *message)
{
    put_bytes(to, field, message->str, message->len);
}
