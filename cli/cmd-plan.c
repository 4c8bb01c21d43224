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

static const struct vg_column list_columns[] = {
    {"PLAN", "id", VG_CELL_TEXT, false},
    {"MADE (UTC)", "made", VG_CELL_TEXT, false},
    {"VERDICT", "verdict", VG_CELL_TEXT, false},
};

static int
show_list(void *data, vg_client *client, GError **err)
{
    const struct vg_online_args *args = data;
    g_autoptr(json_object) items = NULL;

    if (vg_client_list(client, "/v1/plans", &items, err) < 0)
        return -1;
    const struct vg_table table = {
        NULL, items, list_columns, G_N_ELEMENTS(list_columns),
        "no plan has been made; `vgpuctl placement --dry-run` makes one"};
    return vg_output_print(args->format, items, &table, 1, err);
}

static int
show_plan(void *data, vg_client *client, GError **err)
{
    static const char *const lists[] = {"actions", NULL};
    const struct vg_online_args *args = data;
    g_autofree char *id = g_uri_escape_string(args->object, NULL, FALSE);
    g_autofree char *path = g_strconcat("/v1/plans/", id, NULL);
    g_autoptr(json_object) document = NULL;

    if (vg_client_get(client, path, lists, &document, err) < 0)
        return -1;
    return vg_plan_print_document(document, args->format, false, NULL, err);
}

int
vg_cmd_plan(int argc, char **argv)
{
    static const struct vg_online_verb verbs[] = {
        {"list", VG_OBJECT_NONE, NULL, show_list},
        {"show", VG_OBJECT_REQUIRED, "name the plan; `vgpuctl plan list` shows them", show_plan},
    };
    static const struct argp argp = {
        .parser = vg_online_parse_children,
        .args_doc = "list\nshow PLAN",
        .doc = "Shows the plans that vgpud has made. A plan is a proposal; nothing is changed.",
        .children = vg_online_children,
    };
    struct vg_online_args args = {.verbs = verbs, .n_verbs = G_N_ELEMENTS(verbs)};

    argp_parse(&argp, argc, argv, 0, NULL, &args);
    return vg_online_run(&args, &args);
}
