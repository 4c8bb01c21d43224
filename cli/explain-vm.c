/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/explain-vm.h"

#include "base/printable.h"
#include "cli/cli.h"
#include "cli/fold.h"
#include "policy/policy.h"

static const struct vg_column columns[] = {
    {"HOST", "host", VG_CELL_TEXT, false},
    {"VERDICT", "verdict", VG_CELL_TEXT, false},
    {"CPU GAIN s/s", "gain.lost_cpu_ns_per_s", VG_CELL_SECONDS, false},
    {"GPU GAIN s/s", "gain.gpu_wait_ns_per_s", VG_CELL_SECONDS, false},
    {"COPY s", "cost.migration_s", VG_CELL_TEXT, true},
    {"CONSTRAINT", "constraint", VG_CELL_TEXT, true},
    {"REASON", "reason", VG_CELL_TEXT, false},
};

int
vg_explain_vm(const vg_snapshot *snapshot, const struct vg_policy_config *config, const char *vm,
              enum vg_output_format format, GError **err)
{
    g_autoptr(vg_explanation) explanation = vg_policy_explain(snapshot, config, vm, err);

    if (!explanation)
        return -1;
    g_autoptr(json_object) doc = vg_explanation_to_json(explanation);
    const struct vg_table table = {NULL, vg_output_member(doc, "candidates"), columns,
                                   G_N_ELEMENTS(columns), NULL};
    if (format == VG_OUTPUT_TABLE || format == VG_OUTPUT_WIDE) {
        g_autoptr(GString) head = g_string_new(NULL);
        const char *called = explanation->display_name;
        g_autofree char *line = g_strdup_printf(
            "%s%s%s%s on %s: %s", called ? called : "", called ? " (" : "", explanation->vm,
            called ? ")" : "", explanation->host, explanation->reason);
        g_autofree char *shown = vg_printable_text(line);
        vg_fold_append(head, shown, 2, vg_fold_terminal());
        g_string_append(head, "\n\n");
        if (vg_cli_print(head->str, err) < 0)
            return -1;
    }
    return vg_output_print(format, doc, &table, 1, err);
}
