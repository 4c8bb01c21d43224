/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl alert list: lists current alerts.
 */
#include "config.h"

#include "base/json.h"
#include "cli/alert-rows.h"
#include "cli/cli.h"
#include "cli/online-args.h"

const struct vg_column vg_alert_columns[VG_ALERT_COLUMNS] = {
    {"ALERT", "alert", VG_CELL_TEXT, false},       {"VM", "who", VG_CELL_TEXT, false},
    {"LOST", "lost_cores", VG_CELL_SHARE, false},  {"LIMIT", "limit", VG_CELL_SHARE, false},
    {"SINCE (UTC)", "since", VG_CELL_TIME, false}, {"UUID", "uuid", VG_CELL_TEXT, true},
    {"MOVE", "move", VG_CELL_TEXT, true},
};

json_object *
vg_alert_rows(json_object *items)
{
    json_object *rows = vg_online_rows(items);

    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        json_object *row = json_object_array_get_idx(rows, i);
        const char *label = json_object_get_string(vg_output_member(row, "label"));
        vg_json_add_string(row, "who", label ? label : "(all)");
        if (vg_output_member(row, "since_ns"))
            vg_online_add_time(row, "since", "since_ns");
    }
    return rows;
}

static int
alert_list(void *data, vg_client *client, GError **err)
{
    static const char *const lists[] = {"items", NULL};
    const struct vg_online_args *args = data;
    g_autoptr(json_object) document = NULL;

    if (vg_client_get(client, "/v1/alerts", lists, &document, err) < 0)
        return -1;
    json_object *items = vg_output_member(document, "items");
    g_autoptr(json_object) rows = vg_alert_rows(items);
    const bool watches = json_object_get_int64(vg_output_member(document, "rules")) > 0;
    const struct vg_table table = {
        NULL, rows, vg_alert_columns, VG_ALERT_COLUMNS,
        watches ? "no alert is active"
                : "no alert is active, and none is configured; to configure one, add a group "
                  "[alert NAME] to vgpud.conf"};
    return vg_output_print(args->format, items, &table, 1, err);
}

int
vg_cmd_alert(int argc, char **argv)
{
    static const struct vg_online_verb verbs[] = {{"list", VG_OBJECT_NONE, NULL, alert_list}};
    static const struct argp argp = {
        .parser = vg_online_parse_children,
        .args_doc = "list",
        .doc = "Lists active alerts: configured alerts, and VMs that a move has left without their "
               "GPUs. `vgpuctl events --types alert --since TIME` lists past alerts.",
        .children = vg_online_children,
    };
    struct vg_online_args args = {
        .verbs = verbs, .n_verbs = G_N_ELEMENTS(verbs), .can_watch = true};

    argp_parse(&argp, argc, argv, 0, NULL, &args);
    return vg_online_run(&args, &args);
}
