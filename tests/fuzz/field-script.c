/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "tests/fuzz/field-script.h"

#include <string.h>

#include <glib.h>

#define STRING_MAX 32

uint8_t
field_script_byte(struct field_script *script)
{
    if (script->left == 0)
        return 0;
    script->left--;
    return *script->data++;
}

static int
find(void *event_class, enum vg_field_scope scope, const char *name)
{
    const struct field_script *script = event_class;

    if (!(script->present >> (g_str_hash(name) % 8) & 1))
        return -1;
    return scope == VG_SCOPE_CONTEXT ? 1 : 2;
}

static bool
get_int(const void *record, int handle, int64_t *ret_value)
{
    struct field_script *script = *(struct field_script *const *)record;
    uint8_t byte = field_script_byte(script);

    (void)handle;
    if (byte >= 0xf0)
        return false;
    *ret_value = byte < script->n_numbers ? script->numbers[byte] : byte;
    return true;
}

static bool
get_str(const void *record, int handle, char *buf, size_t size)
{
    struct field_script *script = *(struct field_script *const *)record;
    uint8_t first = field_script_byte(script);

    (void)handle;
    memset(buf, 0, size);
    if (script->n_strings > 0 && first >= STRING_MAX) {
        size_t pick = (size_t)(first - STRING_MAX);
        if (pick < script->n_strings)
            g_strlcpy(buf, script->strings[pick], size);
        return pick < script->n_strings;
    }
    for (size_t i = 0; i < first % STRING_MAX; i++) {
        uint8_t byte = field_script_byte(script);
        if (i < size - 1 && byte != 0)
            buf[i] = (char)byte;
        else if (byte == 0)
            break;
    }
    return true;
}

const struct vg_field_reader field_script_reader = {find, get_int, get_str};
