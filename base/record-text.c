/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads records from text without a tree. In a json-c tree, a number takes 60 bytes; here it takes
 * 8. This reader refuses text that is not plain. The tree then decides, and its errors are those
 * that users see.
 */
#include "config.h"

#include <math.h>
#include <string.h>

#include <float.h>

#include "base/record.h"

/* Digits that fit into 64 bits, and powers of ten that a double holds exactly. */
#define DIGITS_MAX 18
#define POWER_MAX  22

/* The maximum length of a number for g_ascii_strtod(). */
#define NUMBER_BYTES 64u

/* The maximum number of rows of a table, one bit each. */
#define ROWS_MAX 64u

struct text {
    const char *at, *end;
    int depth; /* number of containers that may still be entered */
    GString *string;
    double *doubles; /* capacity n_doubles */
    size_t n_doubles;
};

/* ---- marks ---- */

static void
text_skip_blanks(struct text *text)
{
    while (text->at < text->end &&
           (*text->at == ' ' || *text->at == '\n' || *text->at == '\t' || *text->at == '\r'))
        text->at++;
}

/* Skips a mark and the blanks around it, if the mark comes next. */
static bool
text_take(struct text *text, char mark)
{
    text_skip_blanks(text);
    if (text->at == text->end || *text->at != mark)
        return false;
    text->at++;
    text_skip_blanks(text);
    return true;
}

static bool
text_take_word(struct text *text, const char *word)
{
    const size_t length = strlen(word);

    if ((size_t)(text->end - text->at) < length || memcmp(text->at, word, length) != 0)
        return false;
    text->at += length;
    return true;
}

static bool
text_take_char(struct text *text, char c)
{
    if (text->at == text->end || *text->at != c)
        return false;
    text->at++;
    return true;
}

static bool
text_enter(struct text *text, char mark)
{
    return text->depth-- > 0 && text_take(text, mark);
}

static bool
text_leave(struct text *text, char mark)
{
    text->depth++;
    return text_take(text, mark);
}

/* ---- strings ---- */

static bool
text_take_hex(struct text *text, gunichar *ret)
{
    *ret = 0;
    for (int i = 0; i < 4; i++, text->at++) {
        if (text->at == text->end || !g_ascii_isxdigit(*text->at))
            return false;
        *ret = *ret * 16 + (gunichar)g_ascii_xdigit_value(*text->at);
    }
    return true;
}

static bool
text_take_escape(struct text *text)
{
    static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    gunichar c = 0, low = 0;

    if (text->at == text->end)
        return false;
    const char name = *text->at++;
    const char *found = name ? strchr(names, name) : NULL;
    if (found) {
        g_string_append_c(text->string, meanings[found - names]);
        return true;
    }
    if (name != 'u' || !text_take_hex(text, &c) || c == 0 || (c >= 0xdc00 && c < 0xe000))
        return false;
    if (c >= 0xd800 && c < 0xdc00) {
        if (!text_take_word(text, "\\u") || !text_take_hex(text, &low) || low < 0xdc00 ||
            low >= 0xe000)
            return false;
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    g_string_append_unichar(text->string, c);
    return true;
}

/* Reads a string of at most max bytes into text->string. */
static bool
text_string(struct text *text, size_t max)
{
    bool ascii = true;

    g_string_truncate(text->string, 0);
    if (text->at == text->end || *text->at++ != '"')
        return false;
    for (;;) {
        const char *from = text->at;
        while (text->at < text->end && *text->at != '"' && *text->at != '\\' &&
               (unsigned char)*text->at >= 0x20)
            ascii = (unsigned char)*text->at++ < 0x80 && ascii;
        g_string_append_len(text->string, from, text->at - from);
        if (text->at == text->end || text->string->len > max)
            return false;
        const char c = *text->at++;
        if (c == '"')
            break;
        if (c != '\\' || !text_take_escape(text))
            return false;
    }
    return text->string->len <= max &&
           (ascii || g_utf8_validate(text->string->str, (gssize)text->string->len, NULL));
}

/* ---- numbers ---- */

struct text_number {
    bool whole;
    int64_t integer; /* valid if whole */
    double value;
};

/* Reads at least one digit. Adds digits to a number while they fit. */
static bool
text_take_digits(struct text *text, uint64_t *number, int *n_digits)
{
    const char *from = text->at;

    while (text->at < text->end && g_ascii_isdigit(*text->at)) {
        if (*n_digits < DIGITS_MAX)
            *number = *number * 10 + (uint64_t)(*text->at - '0');
        *n_digits += *number > 0;
        text->at++;
    }
    return text->at > from;
}

/* Reads a number with libc, which rounds correctly. */
static bool
text_number_slowly(const char *from, const char *to, double *ret)
{
    char copy[NUMBER_BYTES];

    if ((size_t)(to - from) >= sizeof(copy))
        return false;
    memcpy(copy, from, (size_t)(to - from));
    copy[to - from] = '\0';
    *ret = g_ascii_strtod(copy, NULL);
    return isfinite(*ret);
}

static bool
text_take_number(struct text *text, struct text_number *ret)
{
    static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const char *const from = text->at;
    const bool minus = text_take_char(text, '-');
    uint64_t digits = 0, exponent = 0;
    int n_digits = 0, n_exponent = 0;

    if (!text_take_char(text, '0') && !text_take_digits(text, &digits, &n_digits))
        return false;
    const char *const point = text->at;
    ret->whole = true;
    if (text_take_char(text, '.')) {
        ret->whole = false;
        if (!text_take_digits(text, &digits, &n_digits))
            return false;
    }
    const int64_t decimals = ret->whole ? 0 : text->at - point - 1;
    bool exact =
        n_digits <= DIGITS_MAX && digits <= (UINT64_C(1) << DBL_MANT_DIG) && decimals <= POWER_MAX;
    if (text_take_char(text, 'e') || text_take_char(text, 'E')) {
        ret->whole = exact = false;
        if (!text_take_char(text, '+'))
            text_take_char(text, '-');
        if (!text_take_digits(text, &exponent, &n_exponent))
            return false;
    }
    /* The tree decides on -0 and on integers with many digits. */
    if (ret->whole && (n_digits > DIGITS_MAX || (minus && digits == 0)))
        return false;
    ret->integer = minus ? -(int64_t)digits : (int64_t)digits;
    if (ret->whole)
        ret->value = (double)ret->integer;
    else if (exact)
        ret->value = (minus ? -(double)digits : (double)digits) / powers[decimals];
    else
        return text_number_slowly(from, text->at, &ret->value);
    return true;
}

static bool
text_double(struct text *text, double min, double max, double *ret)
{
    struct text_number number;

    if (!text_take_number(text, &number) || number.value < min || number.value > max)
        return false;
    *ret = number.value;
    return true;
}

static bool
text_int64(struct text *text, int64_t min, int64_t max, int64_t *ret)
{
    struct text_number number;

    if (!text_take_number(text, &number) || !number.whole || number.integer < min ||
        number.integer > max)
        return false;
    *ret = number.integer;
    return true;
}

/* ---- members that the table does not name ---- */

static bool
text_skip(struct text *text)
{
    struct text_number number;
    const char first = text->at < text->end ? *text->at : '\0';
    const char last = first == '{' ? '}' : ']';

    if (first == '"')
        return text_string(text, SIZE_MAX);
    if (first != '{' && first != '[')
        return text_take_word(text, "null") || text_take_word(text, "true") ||
               text_take_word(text, "false") || text_take_number(text, &number);
    if (!text_enter(text, first))
        return false;
    if (text->at < text->end && *text->at != last) {
        do {
            if (first == '{' && (!text_string(text, SIZE_MAX) || !text_take(text, ':')))
                return false;
            if (!text_skip(text))
                return false;
        } while (text_take(text, ','));
    }
    return text_leave(text, last);
}

/* ---- fields ---- */

static bool text_record(struct text *text, const struct vg_record_type *type, void *record);

static bool
text_enum(struct text *text, const struct vg_field *field, int *ret)
{
    if (!text_string(text, SIZE_MAX))
        return false;
    for (int i = 0; field->names[i]; i++) {
        if (strcmp(field->names[i], text->string->str) == 0) {
            *ret = i;
            return true;
        }
    }
    return false;
}

static bool
text_bool(struct text *text, bool *ret)
{
    *ret = text_take_word(text, "true");
    return *ret || text_take_word(text, "false");
}

static bool
text_item(struct text *text, const struct vg_field *field, void *container)
{
    int64_t wide = 0;

    if (field->type == VG_FIELD_STRINGS) {
        if (!text_string(text, (size_t)field->min))
            return false;
        g_ptr_array_add(container, g_strdup(text->string->str));
        return true;
    }
    if (field->type == VG_FIELD_INTS) {
        if (!text_int64(text, 0, (int64_t)field->min, &wide))
            return false;
        const int32_t value = (int32_t)wide;
        g_array_append_val((GArray *)container, value);
        return true;
    }
    void *record = vg_record_new(field->record);
    g_ptr_array_add(container, record);
    return text_record(text, field->record, record);
}

static bool
text_items(struct text *text, const struct vg_field *field, void *container)
{
    size_t n = 0;

    if (!text_enter(text, '['))
        return false;
    if (text->at < text->end && *text->at != ']') {
        do {
            if (n++ >= (size_t)field->max || !text_item(text, field, container))
                return false;
        } while (text_take(text, ','));
    }
    return text_leave(text, ']');
}

/* Allocates the memory of the array once. */
static bool
text_doubles(struct text *text, const struct vg_field *field, GArray *array)
{
    size_t n = 0;

    if (text->n_doubles < (size_t)field->max) {
        text->n_doubles = (size_t)field->max;
        text->doubles = g_renew(double, text->doubles, text->n_doubles);
    }
    if (!text_enter(text, '['))
        return false;
    if (text->at < text->end && *text->at != ']') {
        do {
            if (n >= (size_t)field->max || !text_double(text, 0, field->min, &text->doubles[n++]))
                return false;
        } while (text_take(text, ','));
    }
    g_array_append_vals(array, text->doubles, (guint)n);
    return text_leave(text, ']');
}

static bool
text_field(struct text *text, const struct vg_field *field, void *at)
{
    switch (field->type) {
    case VG_FIELD_STRING:
        if (!text_string(text, (size_t)field->max) || text->string->len < (size_t)field->min)
            return false;
        *(char **)at = g_strdup(text->string->str);
        return true;
    case VG_FIELD_INT64:
        return text_int64(text, (int64_t)field->min, (int64_t)field->max, at);
    case VG_FIELD_DOUBLE:
        return text_double(text, field->min, field->max, at);
    case VG_FIELD_BOOL:
        return text_bool(text, at);
    case VG_FIELD_ENUM:
        return text_enum(text, field, at);
    case VG_FIELD_RECORD:
        return text_record(text, field->record, at);
    case VG_FIELD_DOUBLES:
        return text_doubles(text, field, *(GArray **)at);
    case VG_FIELD_STRINGS:
    case VG_FIELD_INTS:
    case VG_FIELD_RECORDS:
        return text_items(text, field, *(void **)at);
    case VG_FIELD_TYPE_MAX:
        break;
    }
    return false;
}

/* Finds the row of a member, which is usually the row after the last one. */
static size_t
text_find_row(const struct vg_record_type *type, const char *name, size_t next)
{
    for (size_t i = 0; i < type->n_fields; i++) {
        const size_t row = (next + i) % type->n_fields;
        if (strcmp(type->fields[row].name, name) == 0)
            return row;
    }
    return type->n_fields;
}

static bool
text_member(struct text *text, const struct vg_record_type *type, void *record, size_t *row,
            uint64_t *seen, uint64_t *present)
{
    if (!text_string(text, SIZE_MAX))
        return false;
    *row = text_find_row(type, text->string->str, *row + 1);
    if (!text_take(text, ':'))
        return false;
    if (*row == type->n_fields)
        return text_skip(text);
    /* The tree decides which of two members with the same name counts. */
    const uint64_t bit = UINT64_C(1) << *row;
    if (*seen & bit)
        return false;
    *seen |= bit;
    if (text_take_word(text, "null"))
        return true;
    *present |= bit;
    return text_field(text, &type->fields[*row], (char *)record + type->fields[*row].offset);
}

static bool
text_record(struct text *text, const struct vg_record_type *type, void *record)
{
    uint64_t seen = 0, present = 0;
    size_t row = type->n_fields;

    if (type->n_fields > ROWS_MAX || !text_enter(text, '{'))
        return false;
    if (text->at < text->end && *text->at != '}') {
        do {
            if (!text_member(text, type, record, &row, &seen, &present))
                return false;
        } while (text_take(text, ','));
    }
    for (size_t i = 0; i < type->n_fields; i++) {
        if ((type->fields[i].flags & VG_FIELD_REQUIRED) && !(present >> i & 1))
            return false;
    }
    vg_record_set_present(type, record, present);
    return text_leave(text, '}');
}

void *
vg_record_read_text(const struct vg_record_type *type, const char *text, size_t size, int max_depth)
{
    struct text reader = {
        .at = text, .end = text + size, .depth = max_depth, .string = g_string_new(NULL)};
    void *record = vg_record_new(type);

    text_skip_blanks(&reader);
    if (!text_record(&reader, type, record) || reader.at != reader.end) {
        vg_record_free(type, record);
        record = NULL;
    }
    g_string_free(reader.string, TRUE);
    g_free(reader.doubles);
    return record;
}
