/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "guest/message.h"

#include <stdlib.h>
#include <string.h>

#include "guest/util.h"

json_object *
vg_guest_message(int64_t id, const char *type)
{
    json_object *object = json_object_new_object();

    json_object_object_add(object, "id", id ? json_object_new_int64(id) : NULL);
    json_object_object_add(object, "type", json_object_new_string(type));
    return object;
}

char *
vg_guest_object_line(json_object *take_object)
{
    int64_t id = json_object_get_int64(json_object_object_get(take_object, "id"));
    char *line = vg_guest_copy(json_object_to_json_string_ext(
        take_object, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));

    json_object_put(take_object);
    if (strlen(line) > VG_GUEST_ANSWER_MAX) {
        free(line);
        line = vg_guest_error_line(id, VG_GUEST_INTERNAL, "the answer is too long");
    }
    return line;
}

char *
vg_guest_error_line(int64_t id, enum vg_guest_code code, const char *message)
{
    json_object *object = vg_guest_message(id, "error");
    vg_guest_auto char *clean = vg_guest_clean(message, VG_GUEST_MESSAGE_MAX);

    json_object_object_add(object, "code", json_object_new_string(vg_guest_code_word(code)));
    json_object_object_add(object, "message", json_object_new_string(clean));
    return vg_guest_object_line(object);
}

void
vg_guest_message_add(json_object *object, json_object *take_more)
{
    if (!take_more)
        return;
    json_object_object_foreach(take_more, name, value)
    {
        json_object_object_add(object, name, json_object_get(value));
    }
    json_object_put(take_more);
}
