/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl plan list|show|apply: the plans that vgpud has made.
 */
#include "config.h"

#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/follow.h"
#include "cli/online-args.h"
#include "cli/plan-apply.h"
#include "cli/plan-text.h"
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

static int
show_plan(void *data, vg_client *client, GError **err)
{
    static const char *const lists[] = {"actions", NULL};
    const struct plan_args *args = data;
    g_autofree char *path = vg_client_path("/v1/plans/", args->online.object, "");
    g_autoptr(json_object) document = NULL;

    if (vg_client_get(client, path, lists, &document, err) < 0)
        return -1;
    return vg_plan_print_document(document, args->online.format, false, NULL, err);
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

static void
check_args(const struct plan_args *args, const struct argp_state *state)
{
    bool applies = strcmp(args->online.verb->name, "apply") == 0;

    if (!applies && (args->dry_run || args->yes))
        argp_error(state, "--dry-run and --yes belong to `plan apply`");
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
    static const char hint[] = "name the plan; `vgpuctl plan list` shows them";
    static const struct vg_online_verb verbs[] = {
        {"list", VG_OBJECT_NONE, NULL, cmd_plan_show_list},
        {"show", VG_OBJECT_BEGINNING, hint, show_plan},
        {"apply", VG_OBJECT_REQUIRED, hint, apply_plan},
    };
    static const struct argp_option options[] = {
        {"dry-run", KEY_DRY_RUN, NULL, 0, "apply: only check each move for obstacles", 1},
        {"yes", KEY_YES, NULL, 0, "apply: do not ask for confirmation", 1},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = cmd_plan_parse,
        .args_doc = "list\nshow PLAN\napply PLAN",
        .doc = "Shows the plans that vgpud has made, and executes one: its moves one after the "
               "other, until one fails. A plan is a proposal; only `apply` changes anything.",
        .children = vg_online_once_children,
    };
    struct plan_args args = {
        .online = {.verbs = verbs, .list = "/v1/plans", .n_verbs = G_N_ELEMENTS(verbs)}};

    argp_parse(&argp, argc, argv, 0, NULL, &args);
    int code = vg_online_run(&args.online, &args);
    vg_follow_die_if_caught();
    return code;
}
