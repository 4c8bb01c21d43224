/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads answers from QEMU's monitor.
 */
#include "config.h"

#include "host/qemu-answer.h"

#include <stdint.h>
#include <string.h>

#include <glib.h>

#include "base/json.h"

#define ANSWER_BYTES_MAX (1 << 20)
#define ANSWER_DEPTH_MAX 16

/* Returns the member of an object, or NULL. */
static json_object *
answer_member(json_object *object, const char *name, json_type type)
{
    json_object *member = NULL;

    if (!json_object_is_type(object, json_type_object) ||
        !json_object_object_get_ex(object, name, &member) || !json_object_is_type(member, type))
        return NULL;
    return member;
}

static json_object *
answer_parse(const char *answer)
{
    return vg_json_parse(answer, strlen(answer), ANSWER_BYTES_MAX, ANSWER_DEPTH_MAX, NULL);
}

/* Returns the message of an error answer, or NULL. */
static const char *
answer_error(json_object *answer)
{
    json_object *error = answer_member(answer, "error", json_type_object);
    json_object *words = error ? answer_member(error, "desc", json_type_string) : NULL;

    return words ? json_object_get_string(words) : NULL;
}

static char *
answer_join_reasons(json_object *reasons)
{
    g_autoptr(GString) text = g_string_new(NULL);

    for (size_t i = 0; i < json_object_array_length(reasons); i++) {
        const char *words = json_object_get_string(json_object_array_get_idx(reasons, i));
        g_string_append_printf(text, "%s%s", i > 0 ? "; " : "",
                               words && words[0] ? words : "an unnamed reason");
    }
    return text->len > 0 ? g_strdup_printf("QEMU says: %s", text->str) : NULL;
}

char *
vg_qemu_why_not_migrated(const char *answer)
{
    g_autoptr(json_object) parsed = answer_parse(answer);
    json_object *result = parsed ? answer_member(parsed, "return", json_type_object) : NULL;
    const char *error = parsed ? answer_error(parsed) : NULL;
    json_object *reasons = NULL;

    if (!parsed)
        return g_strdup("QEMU's answer cannot be read");
    if (error)
        return g_strdup_printf("QEMU does not report what blocks a migration: %s", error);
    if (!result)
        return g_strdup("QEMU does not report what blocks a migration");
    if (!json_object_object_get_ex(result, "blocked-reasons", &reasons))
        return NULL;
    if (!json_object_is_type(reasons, json_type_array))
        return g_strdup("QEMU's reasons against a migration are not a list");
    return answer_join_reasons(reasons);
}

char *
vg_qemu_property(const char *answer)
{
    g_autoptr(json_object) parsed = answer_parse(answer);
    json_object *text = parsed ? answer_member(parsed, "return", json_type_string) : NULL;
    json_object *truth = parsed ? answer_member(parsed, "return", json_type_boolean) : NULL;

    if (truth)
        return g_strdup(json_object_get_boolean(truth) ? "on" : "off");
    return g_strdup(text ? json_object_get_string(text) : NULL);
}
