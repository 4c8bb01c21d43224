/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/record.h"

#include <string.h>

#include "base/error.h"

/* Members are accessed by offset. These functions restore their C types. */
static inline void *
member(void *record, const struct vg_field *field)
{
    return (char *)record + field->offset;
}

static inline const void *
const_member(const void *record, const struct vg_field *field)
{
    return (const char *)record + field->offset;
}

static inline const GArray *
array_of(const void *record, const struct vg_field *field)
{
    return *(GArray *const *)const_member(record, field);
}

static inline const GPtrArray *
list_of(const void *record, const struct vg_field *field)
{
    return *(GPtrArray *const *)const_member(record, field);
}

static inline const char *
string_of(const void *record, const struct vg_field *field)
{
    return *(char *const *)const_member(record, field);
}

static size_t
item_size(const struct vg_field *field)
{
    return field->type == VG_FIELD_INTS ? sizeof(int32_t) : sizeof(double);
}

static void
record_init(const struct vg_record_type *type, void *record)
{
    memset(record, 0, type->size);
    for (size_t i = 0; i < type->n_fields; i++) {
        const struct vg_field *field = &type->fields[i];
        switch (field->type) {
        case VG_FIELD_STRINGS:
            *(GPtrArray **)member(record, field) = g_ptr_array_new_with_free_func(g_free);
            break;
        case VG_FIELD_RECORDS:
            *(GPtrArray **)member(record, field) = g_ptr_array_new();
            break;
        case VG_FIELD_INTS:
        case VG_FIELD_DOUBLES:
            *(GArray **)member(record, field) = g_array_new(FALSE, FALSE, (guint)item_size(field));
            break;
        case VG_FIELD_RECORD:
            record_init(field->record, member(record, field));
            break;
        case VG_FIELD_STRING:
        case VG_FIELD_INT64:
        case VG_FIELD_DOUBLE:
        case VG_FIELD_BOOL:
        case VG_FIELD_ENUM:
        case VG_FIELD_TYPE_MAX:
            break;
        }
    }
}

void
vg_record_clear(const struct vg_record_type *type, void *record)
{
    for (size_t i = 0; i < type->n_fields; i++) {
        const struct vg_field *field = &type->fields[i];
        switch (field->type) {
        case VG_FIELD_STRING:
            g_free(*(char **)member(record, field));
            break;
        case VG_FIELD_STRINGS:
            g_ptr_array_free(*(GPtrArray **)member(record, field), TRUE);
            break;
        case VG_FIELD_RECORDS:
            vg_record_truncate(field->record, *(GPtrArray **)member(record, field), 0);
            g_ptr_array_free(*(GPtrArray **)member(record, field), TRUE);
            break;
        case VG_FIELD_INTS:
        case VG_FIELD_DOUBLES:
            g_array_free(*(GArray **)member(record, field), TRUE);
            break;
        case VG_FIELD_RECORD:
            vg_record_clear(field->record, member(record, field));
            break;
        case VG_FIELD_INT64:
        case VG_FIELD_DOUBLE:
        case VG_FIELD_BOOL:
        case VG_FIELD_ENUM:
        case VG_FIELD_TYPE_MAX:
            break;
        }
    }
    memset(record, 0, type->size);
}

void *
vg_record_new(const struct vg_record_type *type)
{
    void *record = g_malloc(type->size);
    record_init(type, record);
    return record;
}

void
vg_record_free(const struct vg_record_type *type, void *record)
{
    if (!record)
        return;
    vg_record_clear(type, record);
    g_free(record);
}

void
vg_record_truncate(const struct vg_record_type *type, GPtrArray *list, guint n)
{
    while (list->len > n)
        vg_record_free(type, g_ptr_array_remove_index(list, list->len - 1));
}

static void
copy_into(const struct vg_record_type *type, const void *from, void *to)
{
    for (size_t i = 0; i < type->n_fields; i++) {
        const struct vg_field *field = &type->fields[i];
        switch (field->type) {
        case VG_FIELD_STRING:
            *(char **)member(to, field) = g_strdup(string_of(from, field));
            break;
        case VG_FIELD_INT64:
            memcpy(member(to, field), const_member(from, field), sizeof(int64_t));
            break;
        case VG_FIELD_DOUBLE:
            memcpy(member(to, field), const_member(from, field), sizeof(double));
            break;
        case VG_FIELD_BOOL:
            memcpy(member(to, field), const_member(from, field), sizeof(bool));
            break;
        case VG_FIELD_ENUM:
            memcpy(member(to, field), const_member(from, field), sizeof(int));
            break;
        case VG_FIELD_INTS:
        case VG_FIELD_DOUBLES: {
            const GArray *array = array_of(from, field);
            g_array_append_vals(*(GArray **)member(to, field), array->data, array->len);
            break;
        }
        case VG_FIELD_STRINGS:
        case VG_FIELD_RECORDS: {
            const GPtrArray *list = list_of(from, field);
            for (guint k = 0; k < list->len; k++)
                g_ptr_array_add(*(GPtrArray **)member(to, field),
                                field->type == VG_FIELD_STRINGS
                                    ? (void *)g_strdup(list->pdata[k])
                                    : vg_record_copy(field->record, list->pdata[k]));
            break;
        }
        case VG_FIELD_RECORD:
            copy_into(field->record, const_member(from, field), member(to, field));
            break;
        case VG_FIELD_TYPE_MAX:
            break;
        }
    }
}

void *
vg_record_copy(const struct vg_record_type *type, const void *record)
{
    void *copy = vg_record_new(type);
    copy_into(type, record, copy);
    return copy;
}

void
vg_record_set_present(const struct vg_record_type *type, void *record, uint64_t rows)
{
    if (type->present > 0)
        memcpy((char *)record + type->present, &rows, sizeof(rows));
}

bool
vg_record_is_present(const struct vg_record_type *type, const void *record, const char *name)
{
    uint64_t rows = 0;

    if (type->present > 0)
        memcpy(&rows, (const char *)record + type->present, sizeof(rows));
    for (size_t i = 0; i < type->n_fields; i++) {
        if (strcmp(type->fields[i].name, name) == 0)
            return rows >> i & 1;
    }
    return false;
}

static int
read_enum(const struct vg_field *field, const struct vg_json_node *node, int *ret, GError **err)
{
    const char *name = NULL;
    if (vg_json_string(node, 64, &name, err) < 0)
        return -1;
    for (int i = 0; field->names[i]; i++) {
        if (strcmp(field->names[i], name) == 0) {
            *ret = i;
            return 0;
        }
    }
    g_autofree char *path = vg_json_path(node);
    g_autofree char *list = g_strjoinv(", ", (char **)field->names);
    return vg_error(err, VG_E_INVALID, "%s: '%s' is not one of: %s", path, name, list);
}

static int
read_string(const struct vg_field *field, const struct vg_json_node *node, char **ret, GError **err)
{
    const char *string = NULL;
    if (vg_json_string(node, (size_t)field->max, &string, err) < 0)
        return -1;
    if (strlen(string) < (size_t)field->min) {
        g_autofree char *path = vg_json_path(node);
        return vg_error(err, VG_E_INVALID, "%s: must not be empty", path);
    }
    *ret = g_strdup(string);
    return 0;
}

static int
read_item(const struct vg_field *field, const struct vg_json_node *item, void *container,
          GError **err)
{
    if (field->type == VG_FIELD_STRINGS) {
        const char *string = NULL;
        if (vg_json_string(item, (size_t)field->min, &string, err) < 0)
            return -1;
        g_ptr_array_add(container, g_strdup(string));
        return 0;
    }
    if (field->type == VG_FIELD_INTS) {
        int64_t wide = 0;
        if (vg_json_int64(item, 0, (int64_t)field->min, &wide, err) < 0)
            return -1;
        int32_t value = (int32_t)wide;
        g_array_append_val((GArray *)container, value);
        return 0;
    }
    if (field->type == VG_FIELD_DOUBLES) {
        double value = 0;
        if (vg_json_double(item, 0, field->min, &value, err) < 0)
            return -1;
        g_array_append_val((GArray *)container, value);
        return 0;
    }
    void *record = vg_record_read(field->record, item, err);
    if (!record)
        return -1;
    g_ptr_array_add(container, record);
    return 0;
}

static int
read_items(const struct vg_field *field, const struct vg_json_node *node, void *container,
           GError **err)
{
    if (vg_json_array(node, (size_t)field->max, err) < 0)
        return -1;
    for (size_t i = 0; i < vg_json_length(node); i++) {
        struct vg_json_node item = vg_json_item(node, i);
        if (read_item(field, &item, container, err) < 0)
            return -1;
    }
    return 0;
}

static int read_into(const struct vg_record_type *type, const struct vg_json_node *node,
                     void *record, GError **err);

static int
read_field(const struct vg_field *field, const struct vg_json_node *node, void *at, GError **err)
{
    switch (field->type) {
    case VG_FIELD_STRING:
        return read_string(field, node, at, err);
    case VG_FIELD_INT64:
        return vg_json_int64(node, (int64_t)field->min, (int64_t)field->max, at, err);
    case VG_FIELD_DOUBLE:
        return vg_json_double(node, field->min, field->max, at, err);
    case VG_FIELD_BOOL:
        return vg_json_bool(node, at, err);
    case VG_FIELD_ENUM:
        return read_enum(field, node, at, err);
    case VG_FIELD_RECORD:
        return read_into(field->record, node, at, err);
    case VG_FIELD_STRINGS:
    case VG_FIELD_INTS:
    case VG_FIELD_DOUBLES:
    case VG_FIELD_RECORDS:
        return read_items(field, node, *(void **)at, err);
    case VG_FIELD_TYPE_MAX:
        break;
    }
    return vg_error(err, VG_E_BUG, "field '%s' has no type", field->name);
}

static int
read_into(const struct vg_record_type *type, const struct vg_json_node *node, void *record,
          GError **err)
{
    uint64_t present = 0;

    if (vg_json_object(node, err) < 0)
        return -1;
    for (size_t i = 0; i < type->n_fields; i++) {
        const struct vg_field *field = &type->fields[i];
        struct vg_json_node value;
        int found = vg_json_member(
            node, field->name,
            field->flags & VG_FIELD_REQUIRED ? VG_JSON_REQUIRED : VG_JSON_OPTIONAL, &value, err);
        if (found < 0)
            return -1;
        if (found > 0 && read_field(field, &value, member(record, field), err) < 0)
            return -1;
        present |= (uint64_t)(found > 0) << i;
    }
    vg_record_set_present(type, record, present);
    return 0;
}

void *
vg_record_read(const struct vg_record_type *type, const struct vg_json_node *node, GError **err)
{
    void *record = vg_record_new(type);
    if (read_into(type, node, record, err) == 0)
        return record;
    vg_record_free(type, record);
    return NULL;
}

static bool
is_zero(const struct vg_field *field, const void *record)
{
    switch (field->type) {
    case VG_FIELD_STRING:
        return string_of(record, field) == NULL;
    case VG_FIELD_INT64:
        return *(const int64_t *)const_member(record, field) == 0;
    case VG_FIELD_DOUBLE:
        return !(*(const double *)const_member(record, field) < 0) &&
               !(*(const double *)const_member(record, field) > 0);
    case VG_FIELD_BOOL:
        return !*(const bool *)const_member(record, field);
    case VG_FIELD_ENUM:
        return *(const int *)const_member(record, field) == 0;
    case VG_FIELD_INTS:
    case VG_FIELD_DOUBLES:
        return array_of(record, field)->len == 0;
    case VG_FIELD_STRINGS:
    case VG_FIELD_RECORDS:
        return list_of(record, field)->len == 0;
    case VG_FIELD_RECORD:
        for (size_t i = 0; i < field->record->n_fields; i++) {
            if (!is_zero(&field->record->fields[i], const_member(record, field)))
                return false;
        }
        return true;
    case VG_FIELD_TYPE_MAX:
        break;
    }
    return true;
}

static json_object *
write_array(const struct vg_field *field, const void *record)
{
    json_object *json = json_object_new_array();
    if (field->type == VG_FIELD_INTS || field->type == VG_FIELD_DOUBLES) {
        const GArray *array = array_of(record, field);
        for (guint i = 0; i < array->len; i++)
            vg_json_append(json, field->type == VG_FIELD_INTS
                                     ? json_object_new_int64(g_array_index(array, int32_t, i))
                                     : vg_json_new_double(g_array_index(array, double, i)));
        return json;
    }
    const GPtrArray *list = list_of(record, field);
    for (guint i = 0; i < list->len; i++)
        vg_json_append(json, field->type == VG_FIELD_STRINGS
                                 ? vg_json_new_string(list->pdata[i])
                                 : vg_record_write(field->record, list->pdata[i]));
    return json;
}

static json_object *
write_field(const struct vg_field *field, const void *record)
{
    const void *at = const_member(record, field);

    switch (field->type) {
    case VG_FIELD_STRING:
        return vg_json_new_string(string_of(record, field));
    case VG_FIELD_INT64:
        return json_object_new_int64(*(const int64_t *)at);
    case VG_FIELD_DOUBLE:
        return vg_json_new_double(*(const double *)at);
    case VG_FIELD_BOOL:
        return json_object_new_boolean(*(const bool *)at);
    case VG_FIELD_ENUM:
        return vg_json_new_string(field->names[*(const int *)at]);
    case VG_FIELD_RECORD:
        return vg_record_write(field->record, at);
    case VG_FIELD_STRINGS:
    case VG_FIELD_INTS:
    case VG_FIELD_DOUBLES:
    case VG_FIELD_RECORDS:
        return write_array(field, record);
    case VG_FIELD_TYPE_MAX:
        break;
    }
    return NULL;
}

json_object *
vg_record_write(const struct vg_record_type *type, const void *record)
{
    json_object *json = json_object_new_object();
    for (size_t i = 0; i < type->n_fields; i++) {
        const struct vg_field *field = &type->fields[i];
        if (!(field->flags & VG_FIELD_READ) &&
            (!(field->flags & VG_FIELD_OMIT) || !is_zero(field, record)))
            vg_json_add(json, field->name, write_field(field, record));
    }
    return json;
}

/* Buffers bytes for a checksum, because a snapshot has millions of small pieces. */
struct hash {
    GChecksum *checksum;
    size_t n;
    char bytes[4096];
};

static void
hash_flush(struct hash *hash)
{
    g_checksum_update(hash->checksum, (const guchar *)hash->bytes, (gssize)hash->n);
    hash->n = 0;
}

static inline void
hash_bytes(struct hash *hash, const char *bytes, size_t n)
{
    if (n > sizeof(hash->bytes) - hash->n)
        hash_flush(hash);
    if (n > sizeof(hash->bytes)) {
        g_checksum_update(hash->checksum, (const guchar *)bytes, (gssize)n);
        return;
    }
    memcpy(hash->bytes + hash->n, bytes, n);
    hash->n += n;
}

/* Hashes a number and a separator. */
static void
hash_number(struct hash *hash, int64_t value, char mark)
{
    char text[24], *at = text + sizeof(text);
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;

    *--at = mark;
    do {
        *--at = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (value < 0)
        *--at = '-';
    hash_bytes(hash, at, (size_t)(text + sizeof(text) - at));
}

/* Hashes a text after its length, so that different contents never produce the same bytes. */
static void
hash_text(struct hash *hash, const char *text)
{
    if (!text) {
        hash_bytes(hash, "null", 4);
        return;
    }
    const size_t length = strlen(text);
    if (length < 10)
        hash_bytes(hash, (const char[]){(char)('0' + length), ':'}, 2);
    else
        hash_number(hash, (int64_t)length, ':');
    hash_bytes(hash, text, length);
}

static void
hash_int(struct hash *hash, int64_t value)
{
    hash_number(hash, value, ';');
}

/* Hashes the text of a number like any other text. */
static void
hash_double(struct hash *hash, double value)
{
    char text[VG_JSON_DOUBLE_LEN];

    hash_text(hash, vg_json_format_double(text, value));
}

static void hash_record(const struct vg_record_type *type, const void *record, bool facts_only,
                        struct hash *hash);

static void
hash_array(const struct vg_field *field, const void *record, bool facts_only, struct hash *hash)
{
    if (field->type == VG_FIELD_INTS || field->type == VG_FIELD_DOUBLES) {
        const GArray *array = array_of(record, field);
        hash_int(hash, array->len);
        for (guint i = 0; i < array->len; i++) {
            if (field->type == VG_FIELD_INTS)
                hash_int(hash, g_array_index(array, int32_t, i));
            else
                hash_double(hash, g_array_index(array, double, i));
        }
        return;
    }
    const GPtrArray *list = list_of(record, field);
    hash_int(hash, list->len);
    for (guint i = 0; i < list->len; i++) {
        if (field->type == VG_FIELD_STRINGS)
            hash_text(hash, list->pdata[i]);
        else
            hash_record(field->record, list->pdata[i], facts_only, hash);
    }
}

static void
hash_record(const struct vg_record_type *type, const void *record, bool facts_only,
            struct hash *hash)
{
    for (size_t i = 0; i < type->n_fields; i++) {
        const struct vg_field *field = &type->fields[i];
        const void *at = const_member(record, field);
        if ((field->flags & VG_FIELD_READ) || (facts_only && !(field->flags & VG_FIELD_FACT)))
            continue;
        hash_text(hash, field->name);
        switch (field->type) {
        case VG_FIELD_STRING:
            hash_text(hash, string_of(record, field));
            break;
        case VG_FIELD_INT64:
            hash_int(hash, *(const int64_t *)at);
            break;
        case VG_FIELD_DOUBLE:
            hash_double(hash, *(const double *)at);
            break;
        case VG_FIELD_BOOL:
            hash_int(hash, *(const bool *)at);
            break;
        case VG_FIELD_ENUM:
            hash_int(hash, *(const int *)at);
            break;
        case VG_FIELD_RECORD:
            hash_record(field->record, at, facts_only, hash);
            break;
        case VG_FIELD_STRINGS:
        case VG_FIELD_INTS:
        case VG_FIELD_DOUBLES:
        case VG_FIELD_RECORDS:
            hash_array(field, record, facts_only, hash);
            break;
        case VG_FIELD_TYPE_MAX:
            break;
        }
    }
}

void
vg_record_hash(const struct vg_record_type *type, const void *record, bool facts_only,
               GChecksum *checksum)
{
    struct hash hash = {.checksum = checksum};

    hash_record(type, record, facts_only, &hash);
    hash_flush(&hash);
}
