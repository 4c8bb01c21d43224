/* SPDX-License-Identifier: Apache-2.0
 *
 * A handle contains the location of a field (payload, common or specific context), its type
 * (signed, unsigned, string) and its index. Reading a field thus takes two calls and no type check.
 */
#include "config.h"

#include "trace/ctf-fields.h"

#include <string.h>

enum place { PLACE_PAYLOAD, PLACE_COMMON, PLACE_SPECIFIC };
enum sort { SORT_UNSIGNED, SORT_SIGNED, SORT_STRING };

#define INDEX_BITS 16
#define INDEX_MAX  ((1 << INDEX_BITS) - 1)

static int
make_handle(enum place place, enum sort sort, uint64_t index)
{
    return (int)place << (INDEX_BITS + 4) | (int)sort << INDEX_BITS | (int)index;
}

static bool
sort_of(const bt_field_class *field_class, enum sort *ret)
{
    bt_field_class_type type = bt_field_class_get_type(field_class);

    if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER))
        *ret = SORT_UNSIGNED;
    else if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_SIGNED_INTEGER))
        *ret = SORT_SIGNED;
    else if (type == BT_FIELD_CLASS_TYPE_STRING)
        *ret = SORT_STRING;
    else
        return false;
    return true;
}

static int
find_in(const bt_field_class *structure, enum place place, const char *name)
{
    enum sort sort;

    if (!structure)
        return -1;
    uint64_t count = bt_field_class_structure_get_member_count(structure);
    for (uint64_t i = 0; i < count && i <= INDEX_MAX; i++) {
        const bt_field_class_structure_member *member =
            bt_field_class_structure_borrow_member_by_index_const(structure, i);
        if (strcmp(bt_field_class_structure_member_get_name(member), name) == 0 &&
            sort_of(bt_field_class_structure_member_borrow_field_class_const(member), &sort))
            return make_handle(place, sort, i);
    }
    return -1;
}

static int
ctf_fields_find(void *event_class, enum vg_field_scope scope, const char *name)
{
    const struct ctf_event_class *c = event_class;

    if (scope == VG_SCOPE_PAYLOAD)
        return find_in(bt_event_class_borrow_payload_field_class_const(c->event_class),
                       PLACE_PAYLOAD, name);
    if (c->comm_from_switches && strcmp(name, "procname") == 0)
        return -1;
    const bt_stream_class *stream_class = bt_event_class_borrow_stream_class_const(c->event_class);
    int handle =
        find_in(bt_stream_class_borrow_event_common_context_field_class_const(stream_class),
                PLACE_COMMON, name);
    if (handle >= 0)
        return handle;
    return find_in(bt_event_class_borrow_specific_context_field_class_const(c->event_class),
                   PLACE_SPECIFIC, name);
}

static const bt_field *
borrow(const bt_event *event, int handle)
{
    const bt_field *structure;

    switch ((enum place)(handle >> (INDEX_BITS + 4))) {
    case PLACE_COMMON:
        structure = bt_event_borrow_common_context_field_const(event);
        break;
    case PLACE_SPECIFIC:
        structure = bt_event_borrow_specific_context_field_const(event);
        break;
    case PLACE_PAYLOAD:
    default:
        structure = bt_event_borrow_payload_field_const(event);
        break;
    }
    return bt_field_structure_borrow_member_field_by_index_const(structure,
                                                                 (uint64_t)(handle & INDEX_MAX));
}

static bool
ctf_fields_get_int(const void *record, int handle, int64_t *ret_value)
{
    switch ((enum sort)(handle >> INDEX_BITS & 0xf)) {
    case SORT_UNSIGNED:
        *ret_value = (int64_t)bt_field_integer_unsigned_get_value(borrow(record, handle));
        return true;
    case SORT_SIGNED:
        *ret_value = bt_field_integer_signed_get_value(borrow(record, handle));
        return true;
    case SORT_STRING:
        break;
    }
    return false;
}

static bool
get_str(const void *record, int handle, char *buf, size_t size)
{
    if ((enum sort)(handle >> INDEX_BITS & 0xf) != SORT_STRING)
        return false;
    const bt_field *field = borrow(record, handle);
    size_t length = bt_field_string_get_length(field);
    if (length >= size)
        length = size - 1;
    memcpy(buf, bt_field_string_get_value(field), length);
    memset(buf + length, 0, size - length);
    return true;
}

const struct vg_field_reader ctf_field_reader = {
    .find = ctf_fields_find,
    .get_int = ctf_fields_get_int,
    .get_str = get_str,
};

bool
ctf_struct_int(const bt_field *structure, const char *name, int64_t *ret_value)
{
    if (!structure)
        return false;
    const bt_field *field = bt_field_structure_borrow_member_field_by_name_const(structure, name);
    if (!field)
        return false;
    bt_field_class_type type = bt_field_get_class_type(field);
    if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER))
        *ret_value = (int64_t)bt_field_integer_unsigned_get_value(field);
    else if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_SIGNED_INTEGER))
        *ret_value = bt_field_integer_signed_get_value(field);
    else
        return false;
    return true;
}
