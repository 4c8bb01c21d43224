/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl plan list|show: the plans that vgpud has made.
 */
#include "config.h"

#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/online-args.h"
#include "cli/plan-text.h"
#include "model/plan.h"

struct plan_args {
    struct vg_online_args online;
    const char *verb;
    const char *id;
};

static const struct vg_column list_columns[] = {
    {"PLAN", "id", VG_CELL_TEXT, false},
    {"MADE (UTC)", "made", VG_CELL_TEXT, false},
    {"VERDICT", "verdict", VG_CELL_TEXT, false},
};

static int
show_list(void *data, vg_client *client, GError **err)
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
    const struct plan_args *args = data;
    g_autofree char *id = g_uri_escape_string(args->id, NULL, FALSE);
    g_autofree char *path = g_strconcat("/v1/plans/", id, NULL);
    g_autoptr(json_object) document = NULL;

    if (vg_client_get(client, path, &document, err) < 0)
        return -1;
    return vg_plan_print_document(document, args->online.format, false, NULL, err);
}

static error_t
parse(int key, char *arg, struct argp_state *state)
{
    struct plan_args *args = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->online;
        break;
    case ARGP_KEY_ARG:
        if (!args->verb && strcmp(arg, "list") != 0 && strcmp(arg, "show") != 0)
            vg_cli_usage(state, "there is no `plan %s`; there are list and show", arg);
        if (args->verb && (args->id || strcmp(args->verb, "list") == 0))
            vg_cli_usage(state, "unexpected argument '%s'", arg);
        *(args->verb ? &args->id : &args->verb) = arg;
        break;
    case ARGP_KEY_END:
        if (!args->verb)
            argp_error(state, "say `list` or `show PLAN`");
        if (strcmp(args->verb, "show") == 0 && !args->id)
            argp_error(state, "name the plan; `vgpuctl plan list` shows them");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

int
vg_cmd_plan(int argc, char **argv)
{
    static const struct argp_child children[] = {{&vg_online_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .parser = parse,
        .args_doc = "list\nshow PLAN",
        .doc = "Shows the plans that vgpud has made. A plan is a proposal; nothing is changed.",
        .children = children,
    };
    struct plan_args args = {0};

    argp_parse(&argp, argc, argv, 0, NULL, &args);
    return vg_online_run(&args.online, strcmp(args.verb, "list") == 0 ? show_list : show_plan,
                         &args);
}
