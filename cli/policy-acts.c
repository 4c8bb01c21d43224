/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/policy-acts.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/printable.h"
#include "cli/cli.h"

static const struct vg_column acts_columns[] = {
    {"VM", "vm", VG_CELL_TEXT, false},         {"FROM", "from", VG_CELL_TEXT, false},
    {"TO", "to", VG_CELL_TEXT, false},         {"WAVE", "wave", VG_CELL_COUNT, false},
    {"STEP", "step", VG_CELL_TEXT, false},     {"MOVE", "move", VG_CELL_TEXT, false},
    {"WAITS FOR", "why", VG_CELL_TEXT, false}, {"UNDOES", "undo_of", VG_CELL_TEXT, true},
    {"GROUP", "group", VG_CELL_COUNT, true},   {"ACT", "act", VG_CELL_TEXT, true},
    {"UUID", "uuid", VG_CELL_TEXT, true},
};

struct vg_table
vg_policy_acts_table(json_object *rows, const char *when_empty)
{
    return (struct vg_table){"Automatic moves", rows, acts_columns, G_N_ELEMENTS(acts_columns),
                             when_empty};
}

static const char *
acts_text(json_object *document, const char *name)
{
    const char *text = json_object_get_string(vg_output_member(document, name));

    return text ? text : "-";
}

static void
acts_print_head(json_object *document)
{
    g_autoptr(GString) text = g_string_new(NULL);
    const char *why = json_object_get_string(vg_output_member(document, "why"));

    vg_printable_append_line(text, "mode:          %s", acts_text(document, "mode"));
    if (why)
        vg_printable_append_line(text, "acts now:      no: %s", why);
    else
        vg_printable_append_line(text, "acts now:      yes");
    vg_printable_append_line(text, "leader:        %s", acts_text(document, "leader"));
    /* Only a leader counts errors. */
    if (vg_output_member(document, "leader"))
        vg_printable_append_line(text, "error budget:  %s of %s spent in the last day",
                                 acts_text(document, "errors"),
                                 acts_text(document, "error_budget"));
    else
        vg_printable_append_line(text, "error budget:  -");
    vg_printable_append_line(text, "plan:          %s", acts_text(document, "plan_id"));
    fputs(text->str, stdout);
    putchar('\n');
}

static int
acts_print(enum vg_output_format format, json_object *document, GError **err)
{
    const struct vg_table table =
        vg_policy_acts_table(vg_output_member(document, "moves"), "no automatic move is known");

    if (format == VG_OUTPUT_TABLE || format == VG_OUTPUT_WIDE)
        acts_print_head(document);
    return vg_output_print(format, document, &table, 1, err);
}

int
vg_policy_acts_status(enum vg_output_format format, vg_client *client, GError **err)
{
    static const char *const lists[] = {"moves", NULL};
    g_autoptr(json_object) document = NULL;

    if (vg_client_get(client, "/v1/policy", lists, &document, err) < 0)
        return -1;
    return acts_print(format, document, err);
}

int
vg_policy_acts_switch(enum vg_output_format format, bool pause, vg_client *client, GError **err)
{
    g_autoptr(json_object) body = json_object_new_object();
    g_autoptr(json_object) document = NULL;

    if (vg_client_post(client, pause ? "/v1/policy/pause" : "/v1/policy/resume", body, &document,
                       err) < 0)
        return -1;
    return acts_print(format, document, err);
}

json_object *
vg_policy_acts_waiting(vg_client *client)
{
    static const char *const lists[] = {"moves", NULL};
    g_autoptr(json_object) document = NULL;
    json_object *rows = json_object_new_array();

    if (vg_client_get(client, "/v1/policy", lists, &document, NULL) < 0)
        return rows;
    json_object *moves = vg_output_member(document, "moves");
    for (size_t i = 0; i < json_object_array_length(moves); i++) {
        json_object *move = json_object_array_get_idx(moves, i);
        const char *step = acts_text(move, "step");
        if (strcmp(step, "waits") == 0 || strcmp(step, "starting") == 0)
            vg_json_append(rows, json_object_get(move));
    }
    return rows;
}
