/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <string.h>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/fold.h"
#include "cli/plan-text.h"

static const struct vg_column action_columns[] = {
    {"VM", "vm", VG_CELL_TEXT, false},
    {"UUID", "uuid", VG_CELL_TEXT, false},
    {"FROM", "from", VG_CELL_TEXT, false},
    {"TO", "to", VG_CELL_TEXT, false},
    {"ROLE", "role", VG_CELL_TEXT, false},
    {"CPU GAIN", "gain.lost_cpu_ns_per_s", VG_CELL_COUNT, false},
    {"GPU GAIN", "gain.gpu_wait_ns_per_s", VG_CELL_COUNT, false},
    {"COPY s", "cost.migration_s", VG_CELL_TEXT, false},
    {"STUN s", "cost.stun_s", VG_CELL_TEXT, false},
    {"REASON", "reason.text", VG_CELL_TEXT, false},
};

static void
add_commands(const vg_plan *plan, json_object *doc)
{
    json_object *actions = vg_output_member(doc, "actions");

    for (unsigned int i = 0; i < plan->actions->len; i++) {
        const struct vg_plan_action *action = g_ptr_array_index(plan->actions, i);
        json_object *commands = json_object_new_object();
        g_autofree char *virsh = vg_plan_action_virsh(action, g_shell_quote);
        g_autofree char *openstack = vg_plan_action_openstack(action, g_shell_quote);
        vg_json_add_string(commands, "virsh", virsh);
        vg_json_add_string(commands, "openstack", openstack);
        vg_json_add(json_object_array_get_idx(actions, i), "commands", commands);
    }
}

int
vg_plan_print(const vg_plan *plan, json_object *document, enum vg_output_format format,
              bool commands, GError **err)
{
    if (format == VG_OUTPUT_TABLE || format == VG_OUTPUT_WIDE) {
        g_autofree char *text = vg_plan_text(plan, commands, vg_fold_terminal());
        return vg_cli_print(text, err);
    }
    if (commands)
        add_commands(plan, document);
    const struct vg_table table = {NULL, vg_output_member(document, "actions"), action_columns,
                                   G_N_ELEMENTS(action_columns), NULL};
    return vg_output_print(format, document, &table, 1, err);
}

int
vg_plan_print_document(json_object *document, enum vg_output_format format, bool commands,
                       vg_plan **ret_plan, GError **err)
{
    g_autofree char *text = vg_json_to_text(document, false);
    g_autoptr(vg_plan) plan = vg_plan_from_json(text, strlen(text), err);

    if (!plan) {
        g_prefix_error(err, "the plan cannot be read: ");
        return -1;
    }
    if (vg_plan_print(plan, document, format, commands, err) < 0)
        return -1;
    if (ret_plan)
        *ret_plan = g_steal_pointer(&plan);
    return 0;
}
