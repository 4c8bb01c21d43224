/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/output-known.h"

#include <string.h>

#include <glib.h>

#include "cli/output.h"

json_object *
vg_output_member(json_object *object, const char *path)
{
    g_auto(GStrv) names = g_strsplit(path, ".", 0);

    for (size_t i = 0; object && names[i]; i++) {
        json_object *next = NULL;
        if (!json_object_is_type(object, json_type_object) ||
            !json_object_object_get_ex(object, names[i], &next))
            return NULL;
        object = next;
    }
    return object;
}

size_t
vg_output_length(json_object *array)
{
    return json_object_is_type(array, json_type_array) ? json_object_array_length(array) : 0;
}

static bool
output_known_is_in_list(json_object *object, const char *list, const char *path)
{
    json_object *names = vg_output_member(object, list);

    for (size_t i = 0; i < vg_output_length(names); i++) {
        if (g_strcmp0(json_object_get_string(json_object_array_get_idx(names, i)), path) == 0)
            return true;
    }
    return false;
}

/* Returns whether a list of the object, or of an object along the path, names the member at the end
 * of the path. */
static bool
output_known_is_named(json_object *object, const char *list, const char *path)
{
    for (const char *dot = path; object && dot; path = dot + 1) {
        if (output_known_is_in_list(object, list, path))
            return true;
        dot = strchr(path, '.');
        g_autofree char *name = dot ? g_strndup(path, (size_t)(dot - path)) : NULL;
        object = name ? vg_output_member(object, name) : NULL;
        if (!dot)
            break;
    }
    return false;
}

json_object *
vg_output_known(json_object *row, const char *member)
{
    return output_known_is_named(row, "unknown", member) ? NULL : vg_output_member(row, member);
}

bool
vg_output_is_bound(json_object *row, const char *member)
{
    return output_known_is_named(row, "bounds", member);
}
