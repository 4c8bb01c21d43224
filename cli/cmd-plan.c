/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl plan list|show|apply: shows and applies vgpud's plans.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/follow.h"
#include "cli/online-args.h"
#include "cli/plan-apply.h"
#include "cli/plan-text.h"
#include "cli/plan-undo.h"
#include "model/plan.h"

enum { KEY_DRY_RUN = 0xb00, KEY_YES };

struct plan_args {
    struct vg_online_args online;
    bool dry_run;
    bool yes;
};

static const struct vg_column list_columns[] = {
    {"PLAN", "id", VG_CELL_TEXT, false},
    {"MADE (UTC)", "made", VG_CELL_TIME, false},
    {"VERDICT", "verdict", VG_CELL_TEXT, false},
};

static int
cmd_plan_show_list(void *data, vg_client *client, GError **err)
{
    const struct plan_args *args = data;
    g_autoptr(json_object) items = NULL;

    if (vg_client_list(client, "/v1/plans", &items, err) < 0)
        return -1;
    const struct vg_table table = {
        NULL, items, list_columns, G_N_ELEMENTS(list_columns),
        "no plan has been made; `vgpuctl placement --dry-run` makes one"};
    return vg_output_print(args->online.format, items, &table, 1, err);
}

/* ---- the moves of a plan ---- */

static const struct vg_column move_columns[] = {
    {"MOVE", "id", VG_CELL_TEXT, false},         {"VM", "vm", VG_CELL_NAME, false},
    {"FROM", "from", VG_CELL_TEXT, false},       {"TO", "to", VG_CELL_TEXT, false},
    {"STATE", "state", VG_CELL_TEXT, false},     {"PREDICTED", "wanted", VG_CELL_TEXT, false},
    {"GAIN", "gain", VG_CELL_TEXT, false},       {"VERDICT", "result", VG_CELL_TEXT, false},
    {"WHY", "verdict.why", VG_CELL_TEXT, false},
};

static void
cmd_plan_add_cores(json_object *row, const char *name, json_object *ns_per_s)
{
    if (!json_object_is_type(ns_per_s, json_type_int))
        return;
    g_autofree char *text = g_strdup_printf("%+.2f", (double)json_object_get_int64(ns_per_s) / 1e9);
    vg_json_add_string(row, name, text);
}

/* Returns the moves that belong to a plan, with texts for the table. */
static json_object *
cmd_plan_moves_of(json_object *items, const char *plan)
{
    g_autoptr(json_object) all = vg_online_rows(items);
    json_object *rows = json_object_new_array();

    for (size_t i = 0; i < json_object_array_length(all); i++) {
        json_object *row = json_object_array_get_idx(all, i);
        json_object *verdict = vg_output_member(row, "verdict");
        if (g_strcmp0(json_object_get_string(vg_output_member(row, "plan_id")), plan) != 0)
            continue;
        const char *result = json_object_get_string(vg_output_member(verdict, "result"));
        g_autofree char *words = result ? g_strdelimit(g_strdup(result), "-", ' ') : NULL;
        vg_json_add_string(row, "result", words);
        cmd_plan_add_cores(row, "gain", vg_output_member(verdict, "gain_ns_per_s"));
        cmd_plan_add_cores(row, "wanted", vg_output_member(row, "predicted_gain_ns_per_s"));
        vg_json_append(rows, json_object_get(row));
    }
    return rows;
}

/* Prints the moves that belong to a plan, and their verdicts, if any. */
static int
cmd_plan_show_moves(const struct plan_args *args, vg_client *client, const char *plan, GError **err)
{
    static const char *const lists[] = {"items", NULL};
    g_autoptr(json_object) document = NULL;

    if (vg_client_get(client, "/v1/cluster/migrations?limit=1000", lists, &document, err) < 0)
        return -1;
    g_autoptr(json_object) rows = cmd_plan_moves_of(vg_output_member(document, "items"), plan);
    if (json_object_array_length(rows) == 0)
        return 0;
    const struct vg_table table = {"Moves of this plan, gains in cores", rows, move_columns,
                                   G_N_ELEMENTS(move_columns), NULL};
    putchar('\n');
    return vg_output_print(args->online.format, rows, &table, 1, err);
}

static int
show_plan(void *data, vg_client *client, GError **err)
{
    static const char *const lists[] = {"actions", NULL};
    const struct plan_args *args = data;
    g_autofree char *path = vg_client_path("/v1/plans/", args->online.object, "");
    g_autoptr(json_object) document = NULL;

    if (vg_client_get(client, path, lists, &document, err) < 0)
        return -1;
    if (vg_plan_print_document(document, args->online.format, false, NULL, err) < 0)
        return -1;
    return vg_follow_stream(args->online.format) == stdout
               ? cmd_plan_show_moves(args, client,
                                     json_object_get_string(vg_output_member(document, "id")), err)
               : 0;
}

static int
apply_plan(void *data, vg_client *client, GError **err)
{
    const struct plan_args *args = data;
    const struct vg_plan_apply apply = {
        .plan = args->online.object,
        .dry_run = args->dry_run,
        .yes = args->yes,
        .format = args->online.format,
    };

    return vg_plan_apply_run(&apply, client, err);
}

static int
cmd_plan_undo(void *data, vg_client *client, GError **err)
{
    const struct plan_args *args = data;
    const struct vg_plan_apply undo = {
        .plan = args->online.object,
        .dry_run = args->dry_run,
        .yes = args->yes,
        .format = args->online.format,
    };

    return vg_plan_undo_run(&undo, client, err);
}

static void
check_args(const struct plan_args *args, const struct argp_state *state)
{
    const char *verb = args->online.verb->name;
    const bool applies = strcmp(verb, "apply") == 0 || strcmp(verb, "undo") == 0;

    if (!applies && (args->dry_run || args->yes))
        argp_error(state, "--dry-run and --yes are valid only with `plan apply` and `plan undo`");
    if (applies && !args->dry_run && !args->yes && !isatty(STDIN_FILENO))
        argp_error(state, "cannot ask for confirmation without a terminal; use --yes");
}

static error_t
cmd_plan_parse(int key, char *arg, struct argp_state *state)
{
    struct plan_args *args = state->input;

    (void)arg;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->online;
        break;
    case KEY_DRY_RUN:
        args->dry_run = true;
        break;
    case KEY_YES:
        args->yes = true;
        break;
    case ARGP_KEY_END:
        check_args(args, state);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

int
vg_cmd_plan(int argc, char **argv)
{
    static const char hint[] = "specify a plan; `vgpuctl plan list` shows all plans";
    static const struct vg_online_verb verbs[] = {
        {"list", VG_OBJECT_NONE, NULL, cmd_plan_show_list},
        {"show", VG_OBJECT_BEGINNING, hint, show_plan},
        {"apply", VG_OBJECT_REQUIRED, hint, apply_plan},
        {"undo", VG_OBJECT_REQUIRED, hint, cmd_plan_undo},
    };
    static const struct argp_option options[] = {
        {"dry-run", KEY_DRY_RUN, NULL, 0, "apply, undo: only check each move for obstacles", 1},
        {"yes", KEY_YES, NULL, 0, "apply, undo: do not ask for confirmation", 1},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = cmd_plan_parse,
        .args_doc = "list\nshow PLAN\napply PLAN\nundo PLAN",
        .doc = "Shows the plans that vgpud has made. `apply` executes the moves of a plan one "
               "after the other, until one fails. `undo` moves VMs back if their moves made "
               "things worse. A plan is only a proposal: `apply` and `undo` make changes, the "
               "other commands do not.",
        .children = vg_online_once_children,
    };
    struct plan_args args = {
        .online = {.verbs = verbs, .list = "/v1/plans", .n_verbs = G_N_ELEMENTS(verbs)}};

    argp_parse(&argp, argc, argv, 0, NULL, &args);
    int code = vg_online_run(&args.online, &args);
    vg_follow_die_if_caught();
    return code;
}
