/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "base/json.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include <float.h>

#include "base/error.h"

static json_object *
parse_whole(json_tokener *tokener, const char *text, size_t size, GError **err)
{
    g_autoptr(json_object) value = json_tokener_parse_ex(tokener, text, (int)size);
    enum json_tokener_error error = json_tokener_get_error(tokener);
    size_t end = json_tokener_get_parse_end(tokener);

    /* The document is truncated, or ends in a value that could continue (a bare word or number),
     * which a blank would end. */
    if (error == json_tokener_continue) {
        value = json_tokener_parse_ex(tokener, " ", 1);
        if (json_tokener_get_error(tokener) == json_tokener_success)
            error = json_tokener_success;
    }
    if (error == json_tokener_continue) {
        vg_error(err, VG_E_INVALID, "not JSON: the text ends too early, at byte %zu", end);
        return NULL;
    }
    if (error != json_tokener_success) {
        vg_error(err, VG_E_INVALID, "not JSON: %s at byte %zu", json_tokener_error_desc(error),
                 end);
        return NULL;
    }
    while (end < size && g_ascii_isspace(text[end]))
        end++;
    if (end < size) {
        vg_error(err, VG_E_INVALID, "not JSON: text follows the value, at byte %zu", end);
        return NULL;
    }
    /* This is null. json-c has no object for it, and NULL means an error here. */
    if (!value)
        vg_error(err, VG_E_INVALID, "the document must be an object, but is null");
    return g_steal_pointer(&value);
}

/* Returns whether a text has nothing that json-c 0.16 accepts in strict mode: single quotes, NaN
 * and Infinity, and a NUL written as \u0000, where it truncates names. */
static bool
is_plain(const char *text, size_t size, size_t *ret_bad)
{
    bool quoted = false;

    for (size_t i = 0; i < size; i++) {
        *ret_bad = i;
        if (text[i] == '"') {
            quoted = !quoted;
        } else if (quoted && text[i] == '\\') {
            if (size - i >= 6 && strncmp(text + i, "\\u0000", 6) == 0)
                return false;
            i++;
        } else if (!quoted && strchr("'NI", text[i])) {
            return false;
        }
    }
    return true;
}

/* In strict mode, json-c 0.18 refuses all strings with non-ASCII characters. */
static bool
json_needs_ascii(const char *text, size_t size)
{
    if (json_c_version_num() < (18 << 8))
        return false;
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)text[i] >= 0x80)
            return true;
    return false;
}

/* Escapes these characters. Returns NULL if the text is not valid UTF-8. */
static char *
json_to_ascii(const char *text, size_t size, GError **err)
{
    const char *end = NULL;
    bool escaped = false;

    if (!g_utf8_validate(text, (gssize)size, &end)) {
        vg_error(err, VG_E_INVALID, "not JSON: invalid UTF-8 at byte %zu", (size_t)(end - text));
        return NULL;
    }
    GString *ascii = g_string_sized_new(size + 64);
    for (end = text + size; text < end; text = g_utf8_next_char(text)) {
        const gunichar c = g_utf8_get_char(text);
        if (c < 0x80)
            g_string_append_c(ascii, (char)c);
        else if (escaped) /* an error, which remains one */
            g_string_append_unichar(ascii, c);
        else if (c < 0x10000)
            g_string_append_printf(ascii, "\\u%04x", c);
        else
            g_string_append_printf(ascii, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
                                   0xdc00 + ((c - 0x10000) & 0x3ff));
        escaped = c == '\\' && !escaped;
    }
    return g_string_free(ascii, FALSE);
}

json_object *
vg_json_parse(const char *text, size_t size, size_t max_size, int max_depth, GError **err)
{
    if (size > max_size || size > INT_MAX) {
        vg_error(err, VG_E_INVALID, "the document has %zu bytes, more than %zu", size, max_size);
        return NULL;
    }
    const char *nul = size > 0 ? memchr(text, '\0', size) : NULL;
    if (nul) {
        vg_error(err, VG_E_INVALID, "not JSON: a NUL byte at byte %zu", (size_t)(nul - text));
        return NULL;
    }
    size_t bad;
    if (!is_plain(text, size, &bad)) {
        vg_error(err, VG_E_INVALID, "not JSON: '%c' at byte %zu", text[bad], bad);
        return NULL;
    }
    g_autofree char *ascii = NULL;
    if (json_needs_ascii(text, size)) {
        ascii = json_to_ascii(text, size, err);
        if (!ascii)
            return NULL;
        text = ascii;
        size = strlen(ascii);
    }
    /* json-c counts the value inside the innermost container as one more level. */
    json_tokener *tokener = json_tokener_new_ex(max_depth + 1);
    if (!tokener) {
        vg_error(err, VG_E_BUG, "JSON depth %d", max_depth);
        return NULL;
    }
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    json_object *value = parse_whole(tokener, text, size, err);
    json_tokener_free(tokener);
    return value;
}

struct vg_json_node
vg_json_root(json_object *value)
{
    return (struct vg_json_node){.value = value};
}

struct vg_json_node
vg_json_item(const struct vg_json_node *array, size_t i)
{
    return (struct vg_json_node){
        .value = json_object_array_get_idx(array->value, i),
        .parent = array,
        .index = i,
    };
}

size_t
vg_json_length(const struct vg_json_node *array)
{
    return json_object_array_length(array->value);
}

static void
append_path(GString *path, const struct vg_json_node *node)
{
    if (!node->parent)
        return;
    append_path(path, node->parent);
    if (!node->member)
        g_string_append_printf(path, "[%zu]", node->index);
    else
        g_string_append_printf(path, "%s%s", path->len > 0 ? "." : "", node->member);
}

char *
vg_json_path(const struct vg_json_node *node)
{
    GString *path = g_string_new(NULL);
    append_path(path, node);
    if (path->len == 0)
        g_string_append(path, "(document)");
    return g_string_free(path, FALSE);
}

static int
wrong_type(const struct vg_json_node *node, const char *want, GError **err)
{
    g_autofree char *path = vg_json_path(node);
    return vg_error(err, VG_E_INVALID, "%s: must be %s, but is %s", path, want,
                    json_type_to_name(json_object_get_type(node->value)));
}

int
vg_json_int64(const struct vg_json_node *node, int64_t min, int64_t max, int64_t *ret, GError **err)
{
    if (!json_object_is_type(node->value, json_type_int))
        return wrong_type(node, "a whole number", err);
    /* Beyond int64_t, json-c saturates, which is outside all ranges used here. */
    int64_t value = json_object_get_int64(node->value);
    if (value < min || value > max || value > VG_JSON_INT_MAX || value < -VG_JSON_INT_MAX) {
        g_autofree char *path = vg_json_path(node);
        return vg_error(err, VG_E_INVALID,
                        "%s: %s is out of range (%" G_GINT64_FORMAT " to %" G_GINT64_FORMAT ")",
                        path, json_object_get_string(node->value), min, max);
    }
    *ret = value;
    return 0;
}

int
vg_json_double(const struct vg_json_node *node, double min, double max, double *ret, GError **err)
{
    if (!json_object_is_type(node->value, json_type_double) &&
        !json_object_is_type(node->value, json_type_int))
        return wrong_type(node, "a number", err);
    double value = json_object_get_double(node->value);
    if (!isfinite(value) || value < min || value > max) {
        g_autofree char *path = vg_json_path(node);
        return vg_error(err, VG_E_INVALID, "%s: %s is out of range (%g to %g)", path,
                        json_object_get_string(node->value), min, max);
    }
    *ret = value;
    return 0;
}

int
vg_json_bool(const struct vg_json_node *node, bool *ret, GError **err)
{
    if (!json_object_is_type(node->value, json_type_boolean))
        return wrong_type(node, "true or false", err);
    *ret = json_object_get_boolean(node->value);
    return 0;
}

int
vg_json_string(const struct vg_json_node *node, size_t max_bytes, const char **ret, GError **err)
{
    if (!json_object_is_type(node->value, json_type_string))
        return wrong_type(node, "a string", err);
    const char *string = json_object_get_string(node->value);
    size_t length = (size_t)json_object_get_string_len(node->value);
    g_autofree char *path = NULL;
    if (length > max_bytes) {
        path = vg_json_path(node);
        return vg_error(err, VG_E_INVALID, "%s: the string has %zu bytes, more than %zu", path,
                        length, max_bytes);
    }
    if (strlen(string) != length) {
        path = vg_json_path(node);
        return vg_error(err, VG_E_INVALID, "%s: the string contains a NUL", path);
    }
    *ret = string;
    return 0;
}

int
vg_json_object(const struct vg_json_node *node, GError **err)
{
    if (!json_object_is_type(node->value, json_type_object))
        return wrong_type(node, "an object", err);
    return 0;
}

int
vg_json_array(const struct vg_json_node *node, size_t max_items, GError **err)
{
    if (!json_object_is_type(node->value, json_type_array))
        return wrong_type(node, "an array", err);
    if (vg_json_length(node) > max_items) {
        g_autofree char *path = vg_json_path(node);
        return vg_error(err, VG_E_INVALID, "%s: %zu items, more than %zu", path,
                        vg_json_length(node), max_items);
    }
    return 0;
}

int
vg_json_member(const struct vg_json_node *object, const char *name, enum vg_json_need need,
               struct vg_json_node *ret, GError **err)
{
    if (vg_json_object(object, err) < 0)
        return -1;
    struct vg_json_node node = {.parent = object, .member = name};
    json_object_object_get_ex(object->value, name, &node.value);
    if (node.value) {
        *ret = node;
        return 1;
    }
    if (need == VG_JSON_OPTIONAL)
        return 0;
    g_autofree char *path = vg_json_path(&node);
    return vg_error(err, VG_E_INVALID, "%s: is missing", path);
}

void
vg_json_add(json_object *object, const char *name, json_object *take_value)
{
    /* This fails only if memory is exhausted, in which case GLib also ends the program. */
    if (json_object_object_add(object, name, take_value) != 0)
        vg_bug("out of memory for a JSON member");
}

void
vg_json_append(json_object *array, json_object *take_value)
{
    if (json_object_array_add(array, take_value) != 0)
        vg_bug("out of memory for a JSON item");
}

void
vg_json_add_int64(json_object *object, const char *name, int64_t value)
{
    vg_json_add(object, name, json_object_new_int64(value));
}

void
vg_json_add_double(json_object *object, const char *name, double value)
{
    vg_json_add(object, name, vg_json_new_double(value));
}

void
vg_json_add_bool(json_object *object, const char *name, bool value)
{
    vg_json_add(object, name, json_object_new_boolean(value));
}

void
vg_json_add_string(json_object *object, const char *name, const char *value)
{
    vg_json_add(object, name, vg_json_new_string(value));
}

json_object *
vg_json_new_string(const char *value)
{
    if (!value)
        return NULL;
    g_autofree char *valid = g_utf8_make_valid(value, -1);
    return json_object_new_string(valid);
}

/* Numbers below this are written without printf(), which takes ten times as long. A plan for 10,000
 * VMs writes 200,000 numbers. */
#define JSON_QUICK_BELOW 1e9

/* Returns the millionths of a number, rounded half to even by its exact value. */
static uint64_t
json_round_exactly(double size)
{
    int exponent = 0;
    /* size = mantissa / 2^shift. The mantissa has 53 bits, and the product fewer than 73. */
    const uint64_t mantissa = (uint64_t)ldexp(frexp(size, &exponent), DBL_MANT_DIG);
    const int shift = DBL_MANT_DIG - exponent;

    if (shift >= 100)
        return 0;
    const unsigned __int128 product = (unsigned __int128)mantissa * 1000000;
    const unsigned __int128 half = (unsigned __int128)1 << (shift - 1);
    const unsigned __int128 rest = product & (2 * half - 1);
    const uint64_t millionths = (uint64_t)(product >> shift);
    return millionths + (rest > half || (rest == half && millionths % 2 == 1));
}

/* Writes a number like printf() with six decimals, rounded half to even by its exact value, and
 * removes zeros at the end except one. Returns false for numbers that are too large. */
static bool
json_format_quickly(char buf[VG_JSON_DOUBLE_LEN], double value)
{
    const double size = fabs(value);

    if (!(size < JSON_QUICK_BELOW))
        return false;
    const double scaled = size * 1e6, below = floor(scaled), rest = scaled - below;
    uint64_t millionths = (uint64_t)below + (rest > 0.5);
    /* The product is off by up to 1/16, which matters only near the middle. */
    if (fabs(rest - 0.5) < 0.25)
        millionths = json_round_exactly(size);
    char digits[24], *at = digits + sizeof(digits);
    uint32_t whole = (uint32_t)(millionths / 1000000), part = (uint32_t)(millionths % 1000000);
    int decimals = 6;
    for (; decimals > 1 && part % 10 == 0; decimals--)
        part /= 10;
    for (*--at = '\0'; decimals > 0; decimals--, part /= 10)
        *--at = (char)('0' + part % 10);
    *--at = '.';
    do {
        *--at = (char)('0' + whole % 10);
        whole /= 10;
    } while (whole > 0);
    if (signbit(value) && millionths > 0)
        *--at = '-';
    memcpy(buf, at, (size_t)(digits + sizeof(digits) - at));
    return true;
}

const char *
vg_json_format_double(char buf[VG_JSON_DOUBLE_LEN], double value)
{
    if (json_format_quickly(buf, value))
        return buf;
    g_ascii_formatd(buf, VG_JSON_DOUBLE_LEN, "%.6f", value);
    size_t length = strlen(buf);
    while (length > 2 && buf[length - 1] == '0' && buf[length - 2] != '.')
        buf[--length] = '\0';
    return buf;
}

json_object *
vg_json_new_double(double value)
{
    char buf[VG_JSON_DOUBLE_LEN];
    if (!isfinite(value))
        return NULL;
    return json_object_new_double_s(value, vg_json_format_double(buf, value));
}

char *
vg_json_to_text(json_object *value, bool pretty)
{
    int flags = JSON_C_TO_STRING_NOSLASHESCAPE;
    if (pretty)
        flags |= JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED;
    return g_strconcat(json_object_to_json_string_ext(value, flags), "\n", NULL);
}
