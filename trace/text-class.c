/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/text-class.h"

#include <string.h>

/* Handles of context fields. Those of payload fields follow. */
enum { HANDLE_TID, HANDLE_PID, HANDLE_COMM, HANDLE_PAYLOAD };

/* ---- what the adapters see ---- */

static int
text_class_find(void *event_class, enum vg_field_scope scope, const char *name)
{
    struct vg_text_class *class = event_class;

    if (scope == VG_SCOPE_PAYLOAD) {
        int slot = vg_text_layout_want(&class->layout, name, class->sample);
        return slot < 0 ? -1 : HANDLE_PAYLOAD + slot;
    }
    if (strcmp(name, "tid") == 0)
        return HANDLE_TID;
    if (strcmp(name, "pid") == 0)
        return HANDLE_PID;
    return strcmp(name, "comm") == 0 ? HANDLE_COMM : -1;
}

/* Parses a decimal number, a hexadecimal one with 0x, or both, as in "0x2eba (11962)". */
static bool
text_class_parse_number(struct vg_text_span text, int64_t *ret)
{
    vg_text_hex_pair(text.s, text.s + text.len, &text);
    const char *p = text.s, *end = text.s + text.len;
    bool negative = text.len > 0 && *p == '-';
    int64_t value = 0;

    p += negative;
    if (end - p > 2 && end - p <= 17 && p[0] == '0' && p[1] == 'x') {
        for (p += 2; p < end && g_ascii_isxdigit(*p); p++)
            value = value << 4 | g_ascii_xdigit_value(*p);
    } else if (!vg_text_digits(&p, end, &value)) {
        return false;
    }
    if (p != end)
        return false;
    *ret = negative ? -value : value;
    return true;
}

static bool
text_class_get_int(const void *data, int handle, int64_t *ret_value)
{
    const struct vg_text_record *record = data;
    int64_t value = VG_NONE;

    switch (handle) {
    case HANDLE_TID:
        value = record->line->tid;
        break;
    case HANDLE_PID:
        value = record->line->tgid;
        break;
    case HANDLE_COMM:
        break;
    default: {
        struct vg_text_span text = record->values[handle - HANDLE_PAYLOAD];
        return text.s && text_class_parse_number(text, ret_value);
    }
    }
    if (value == VG_NONE)
        return false;
    *ret_value = value;
    return true;
}

static bool
text_class_get_str(const void *data, int handle, char *buf, size_t size)
{
    const struct vg_text_record *record = data;
    struct vg_text_span text = {0};

    if (handle >= HANDLE_PAYLOAD)
        text = record->values[handle - HANDLE_PAYLOAD];
    else if (handle == HANDLE_COMM)
        text = record->line->comm;
    if (!text.s || text.len == 0 || size == 0)
        return false;
    size_t len = strnlen(text.s, MIN(text.len, size - 1));
    memcpy(buf, text.s, len);
    memset(buf + len, 0, size - len);
    return true;
}

static const struct vg_field_reader text_class_reader = {
    .find = text_class_find,
    .get_int = text_class_get_int,
    .get_str = text_class_get_str,
};

/* ---- event names ---- */

unsigned int
vg_text_class_hash(const void *data)
{
    const struct vg_text_span *span = data;
    uint32_t hash = 2166136261u; /* FNV-1a */

    for (size_t i = 0; i < span->len; i++)
        hash = (hash ^ (uint8_t)span->s[i]) * 16777619u;
    return hash;
}

int
vg_text_class_equal(const void *a, const void *b)
{
    const struct vg_text_span *x = a, *y = b;
    return x->len == y->len && memcmp(x->s, y->s, x->len) == 0;
}

static struct vg_text_span
text_class_plain_name(struct vg_text_span name)
{
    const char *colon = memchr(name.s, ':', name.len);
    if (!colon)
        return name;
    size_t skip = (size_t)(colon - name.s) + 1;
    return (struct vg_text_span){name.s + skip, name.len - skip};
}

bool
vg_text_class_is(struct vg_text_span name, const char *event)
{
    struct vg_text_span plain = text_class_plain_name(name);
    return plain.len == strlen(event) && memcmp(plain.s, event, plain.len) == 0;
}

struct vg_text_class *
vg_text_class_new(struct vg_text_span name, struct vg_text_span sample, const vg_aliases *aliases)
{
    struct vg_text_class *class = g_new0(struct vg_text_class, 1);
    char *copy = g_strndup(name.s ? name.s : "", name.len);

    class->name = (struct vg_text_span){copy, name.len};
    struct vg_text_span event = text_class_plain_name(class->name);
    const struct vg_alias *alias = vg_aliases_find(aliases, event.s);
    if (alias)
        event = (struct vg_text_span){vg_alias_event(alias), strlen(vg_alias_event(alias))};
    vg_text_layout_init(&class->layout, event);
    class->is_wakeup = vg_text_class_is(class->name, VG_TEXT_WAKEUP);
    class->is_waking = vg_text_class_is(class->name, VG_TEXT_WAKING);
    class->sample = sample;
    vg_binding_init(&class->binding, copy, aliases, &text_class_reader, class);
    class->sample = (struct vg_text_span){0};
    return class;
}

void
vg_text_class_free(void *data)
{
    struct vg_text_class *class = data;

    vg_text_layout_clear(&class->layout);
    g_free((char *)(uintptr_t) class->name.s);
    g_free(class);
}
