/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/move-check.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "cli/cli.h"
#include "cli/fold.h"
#include "cli/move-text.h"
#include "cli/online-args.h"
#include "model/migration.h"

static const struct vg_column step_columns[] = {
    {"STEP", "verb", VG_CELL_TEXT, false},
    {"EXPECTED s", "expected_s", VG_CELL_COUNT, false},
    {"DEADLINE s", "deadline_s", VG_CELL_COUNT, false},
    {"WHAT IT DOES", "does", VG_CELL_TEXT, false},
};

/* The effect of each step. A newer vgpud's additional steps are shown without a text. The last text
 * is for moves through nova. */
static const char *const step_does[][3] = {
    {"look", "queries both hosts' libvirt about the VM",
     "queries this host's libvirt about the VM"},
    {"precheck", "checks with both hosts' libvirt and the guest that the VM can move",
     "checks with nova whether the move is possible"},
    {"reserve", "reserves GPUs on the other host", NULL},
    {"quiesce", "makes the guest release its GPUs", NULL},
    {"detach", "unplugs the GPUs", NULL},
    {"migrate", "copies the VM's memory and switches hosts", "lets nova live-migrate the VM"},
    {"attach", "plugs in the GPUs of the other host", NULL},
    {"resume", "makes the guest use its GPUs again", NULL},
    {"verify", "verifies the result with both hosts' libvirt",
     "checks with nova that the VM has arrived"},
    {"release", "releases the reservation", NULL},
};

static const struct vg_column move_check_device_columns[] = {
    {"GPU", "alias", VG_CELL_TEXT, false},
    {"KIND", "kind", VG_CELL_TEXT, false},
    {"TYPE", "type", VG_CELL_TEXT, false},
    {"IN THE GUEST", "guest_address", VG_CELL_TEXT, false},
    {"ON SOURCE", "source_address", VG_CELL_TEXT, false},
    {"ON TARGET", "target_address", VG_CELL_TEXT, true},
};

static const struct vg_column move_check_path_columns[] = {
    {"PATH", "path", VG_CELL_TEXT, false},
    {"WHAT FOR", "use", VG_CELL_TEXT, false},
    {"ON TARGET", "verdict", VG_CELL_TEXT, false},
    {"WHAT IS THERE", "text", VG_CELL_TEXT, true},
};

int
vg_move_check_ask(vg_client *client, json_object *body, json_object **ret, GError **err)
{
    g_autoptr(json_object) check = NULL;

    if (vg_client_post(client, "/v1/migrations", body, &check, err) < 0)
        return -1;
    if (!json_object_is_type(vg_output_member(check, "problems"), json_type_array))
        return vg_error(err, VG_E_EXTERNAL, "the answer to a dry run does not list obstacles");
    *ret = g_steal_pointer(&check);
    return 0;
}

static const char *
move_check_member(json_object *check, const char *name)
{
    const char *text = json_object_get_string(vg_output_member(check, name));

    return text ? text : "?";
}

static bool
move_check_is_nova(json_object *check)
{
    return strcmp(move_check_member(check, "executor"),
                  vg_migration_executor_names[VG_EXECUTOR_NOVA]) == 0;
}

/* Describes the effects of the move on programs in the guest. */
static void
move_check_add_programs(GString *text, json_object *guest)
{
    const int64_t total = json_object_get_int64(vg_output_member(guest, "total"));
    json_object *programs = vg_output_member(guest, "programs");

    if (total == 0)
        return;
    vg_printable_append_line(text,
                             "%lld program%s in the guest will be paused. Training ranks on other "
                             "machines wait for %s, and may time out.",
                             (long long)total, total == 1 ? "" : "s", total == 1 ? "it" : "them");
    const int64_t forked = json_object_get_int64(vg_output_member(guest, "forked"));
    if (forked > 0) {
        g_autofree char *what = vg_move_text_forked(
            forked, json_object_get_int64(vg_output_member(guest, "forked_descriptors")),
            json_object_get_int64(vg_output_member(guest, "forked_maps")));
        vg_printable_append_line(text, "There are %s; the children release these, and continue.",
                                 what);
    }
    for (size_t i = 0; i < vg_output_length(programs); i++) {
        json_object *program = json_object_array_get_idx(programs, i);
        if (strcmp(move_check_member(program, "movable"), "unknown") == 0)
            vg_printable_append_line(
                text,
                "- it is unknown whether %s (%s) can be restored: the agent did not watch from "
                "its start whether it uses another process's memory",
                move_check_member(program, "comm"), move_check_member(program, "pid"));
    }
}

static void
move_check_add_list(GString *text, const char *head, json_object *list)
{
    const size_t n = vg_output_length(list);

    if (n > 0)
        g_string_append(text, head);
    for (size_t i = 0; i < n; i++)
        vg_printable_append_line(text, "- %s",
                                 json_object_get_string(json_object_array_get_idx(list, i)));
}

static void
move_check_add_mode(GString *text, json_object *check)
{
    const char *why = json_object_get_string(vg_output_member(check, "mode_why"));

    if (why)
        vg_printable_append_line(text, "Mode %s: %s.", move_check_member(check, "mode"), why);
    const char *place = json_object_get_string(vg_output_member(check, "gpu_during"));
    const char *place_why = json_object_get_string(vg_output_member(check, "gpu_during_why"));
    if (place)
        vg_printable_append_line(text,
                                 "While it has no GPU, its OpenCL programs continue at %s%s%s%s; "
                                 "programs that cannot continue there wait.",
                                 place, place_why ? " (" : "", place_why ? place_why : "",
                                 place_why ? ")" : "");
    else if (place_why)
        vg_printable_append_line(text, "No proxy for its OpenCL programs: %s.", place_why);
}

static void
move_check_add_tls(GString *text, json_object *check)
{
    const char *why = json_object_get_string(vg_output_member(check, "tls_why"));

    if (why)
        vg_printable_append_line(text, "TLS for the migration: %s (%s).",
                                 move_check_member(check, "tls"), why);
}

static void
move_check_add_standstill(GString *text, json_object *check)
{
    const double s = json_object_get_double(vg_output_member(check, "standstill_s"));

    if (s > 0) {
        g_autofree char *time = vg_move_text_seconds((int64_t)(s * 1e9));
        if (vg_output_member(check, "gpu_during"))
            vg_printable_append_line(text,
                                     "To switch to this proxy and back, programs are expected to "
                                     "be paused for at most %s.",
                                     time);
        else
            vg_printable_append_line(text,
                                     "GPU programs are expected to be paused for %s: release, "
                                     "unplug, migrate, plug, resume.",
                                     time);
    }
}

char *
vg_move_check_text(json_object *check)
{
    json_object *problems = vg_output_member(check, "problems");
    const size_t n = vg_output_length(problems);
    g_autoptr(GString) text = g_string_new(NULL);
    GString *folded = g_string_new(NULL);

    vg_printable_append_line(text, "%s from %s to %s%s", move_check_member(check, "vm"),
                             move_check_member(check, "from"), move_check_member(check, "to"),
                             move_check_is_nova(check) ? ", by nova" : "");
    if (n == 0)
        g_string_append(text, "No obstacles found.\n");
    else
        g_string_append(text, "Obstacles:\n");
    for (size_t i = 0; i < n; i++)
        vg_printable_append_line(text, "- %s",
                                 json_object_get_string(json_object_array_get_idx(problems, i)));
    move_check_add_list(text, "Unknown:\n", vg_output_member(check, "doubts"));
    move_check_add_list(text, "Not checked:\n", vg_output_member(check, "untried"));
    move_check_add_mode(text, check);
    move_check_add_tls(text, check);
    move_check_add_standstill(text, check);
    move_check_add_programs(text, vg_output_member(check, "guest"));
    vg_fold_append(folded, text->str, 2, vg_fold_terminal());
    return g_string_free(folded, FALSE);
}

static void
move_check_add_does(json_object *row, bool is_nova)
{
    const char *verb = json_object_get_string(vg_output_member(row, "verb"));

    for (size_t i = 0; verb && i < G_N_ELEMENTS(step_does); i++) {
        if (strcmp(verb, step_does[i][0]) == 0)
            vg_json_add_string(row, "does", step_does[i][is_nova ? 2 : 1]);
    }
}

/* Returns the steps, and a row for their total. */
static json_object *
move_check_rows(json_object *check)
{
    json_object *steps = vg_output_member(check, "steps");
    json_object *rows = steps ? vg_online_rows(steps) : json_object_new_array();
    json_object *sum = json_object_new_object();

    for (size_t i = 0; i < json_object_array_length(rows); i++)
        move_check_add_does(json_object_array_get_idx(rows, i), move_check_is_nova(check));
    vg_json_add_string(sum, "verb", "all steps");
    vg_json_add(sum, "expected_s", json_object_get(vg_output_member(check, "expected_s")));
    vg_json_append(rows, sum);
    return rows;
}

int
vg_move_check_problems(json_object *check, GError **err)
{
    const size_t n = vg_output_length(vg_output_member(check, "problems"));

    if (n == 0)
        return 0;
    return vg_error(err, VG_E_REFUSED, "%s cannot be moved to %s: %zu problem%s",
                    move_check_member(check, "vm"), move_check_member(check, "to"), n,
                    n == 1 ? "" : "s");
}

int
vg_move_check_print(json_object *check, enum vg_output_format format, GError **err)
{
    const bool for_people = format == VG_OUTPUT_TABLE || format == VG_OUTPUT_WIDE;
    g_autofree char *head = vg_move_check_text(check);
    g_autoptr(json_object) rows =
        for_people ? move_check_rows(check) : json_object_get(vg_output_member(check, "steps"));
    json_object *paths = vg_output_member(check, "paths");
    const struct vg_table tables[] = {
        /* The last column is not for programs. */
        {NULL, rows, step_columns, G_N_ELEMENTS(step_columns) - (for_people ? 0 : 1), NULL},
        {NULL, vg_output_member(check, "devices"), move_check_device_columns,
         G_N_ELEMENTS(move_check_device_columns), "No GPU moves with the VM."},
        {NULL, paths, move_check_path_columns, G_N_ELEMENTS(move_check_path_columns), NULL},
    };
    /* Paths were not checked. */
    const size_t n_tables = G_N_ELEMENTS(tables) - (vg_output_length(paths) > 0 ? 0 : 1);

    if ((for_people && (vg_cli_print(head, err) < 0 || vg_cli_print("\n", err) < 0)) ||
        vg_output_print(format, check, tables, n_tables, err) < 0)
        return -1;
    return vg_move_check_problems(check, err);
}
