/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/doctor.h"

#include <stdarg.h>
#include <string.h>

#include <glib.h>

#include "base/json.h"
#include "cli/output.h"

const char *const vg_health_names[] = {
    [VG_HEALTH_OK] = "ok",
    [VG_HEALTH_LACKS] = "lacks",
    [VG_HEALTH_BROKEN] = "broken",
    [VG_HEALTH_MAX] = NULL,
};

void
vg_doctor_add(json_object *checks, const char *what, enum vg_health health, const char *mend,
              const char *why, ...)
{
    json_object *row = json_object_new_object();
    va_list args;

    va_start(args, why);
    g_autofree char *text = g_strdup_vprintf(why, args);
    va_end(args);
    vg_json_add_string(row, "what", what);
    vg_json_add_string(row, "state", vg_health_names[health]);
    vg_json_add_string(row, "why", text);
    vg_json_add_string(row, "mend", mend);
    vg_json_append(checks, row);
}

const char *
vg_doctor_by_distribution(const char *root, const char *debian, const char *ubuntu)
{
    g_autofree char *path = g_strconcat(root, "/etc/os-release", NULL), *text = NULL;

    if (!g_file_get_contents(path, &text, NULL, NULL))
        return debian;
    return g_regex_match_simple("^(ID|ID_LIKE)=.*\\bubuntu\\b", text, G_REGEX_MULTILINE, 0)
               ? ubuntu
               : debian;
}

unsigned
vg_doctor_count(json_object *checks, enum vg_health health)
{
    unsigned n = 0;

    for (size_t i = 0; i < vg_output_length(checks); i++) {
        json_object *state = vg_output_member(json_object_array_get_idx(checks, i), "state");
        n += strcmp(json_object_get_string(state), vg_health_names[health]) == 0;
    }
    return n;
}
