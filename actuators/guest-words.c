/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "actuators/guest-words.h"

#include <string.h>

#include <glib.h>

#include "base/json.h"

char *
vg_guest_words_clean(const char *text, size_t max)
{
    g_autofree char *valid = g_utf8_make_valid(text, (gssize)MIN(strlen(text), max));
    GString *out = g_string_new(NULL);

    for (const char *at = valid; *at; at = g_utf8_next_char(at)) {
        gunichar letter = g_utf8_get_char(at);
        g_string_append_unichar(out, g_unichar_isprint(letter) ? letter : '?');
    }
    /* U+FFFD replaces bytes that are not UTF-8, and is longer than a byte. */
    if (out->len > max)
        g_string_truncate(out,
                          (size_t)(g_utf8_find_prev_char(out->str, out->str + max + 1) - out->str));
    return g_string_free(out, FALSE);
}

char *
vg_guest_words_text(json_object *object, const char *name, size_t max)
{
    json_object *value = json_object_object_get(object, name);

    return json_object_is_type(value, json_type_string)
               ? vg_guest_words_clean(json_object_get_string(value), max)
               : NULL;
}

int64_t
vg_guest_words_number(json_object *object, const char *name)
{
    json_object *value = json_object_object_get(object, name);
    int64_t number = json_object_is_type(value, json_type_int) ? json_object_get_int64(value) : 0;

    return CLAMP(number, 0, VG_JSON_INT_MAX);
}

bool
vg_guest_words_flag(json_object *object, const char *name)
{
    return json_object_get_boolean(json_object_object_get(object, name));
}

json_object *
vg_guest_words_item(json_object *object, const char *list, size_t i)
{
    json_object *items = json_object_object_get(object, list);
    json_object *item =
        json_object_is_type(items, json_type_array) && i < json_object_array_length(items)
            ? json_object_array_get_idx(items, i)
            : NULL;

    return json_object_is_type(item, json_type_object) ? item : NULL;
}
