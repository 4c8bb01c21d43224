/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/vm-list.h"

#include "base/clock.h"
#include "base/json.h"
#include "cli/cli.h"

static const struct vg_column vm_list_columns[] = {
    {"HOST", "host", VG_CELL_TEXT, false},
    {"VM", "name", VG_CELL_TEXT, false},
    {"UUID", "uuid", VG_CELL_TEXT, true},
    {"INSTANCE", "display_name", VG_CELL_TEXT, true},
    {"CLASS", "class", VG_CELL_TEXT, false},
    {"WANTED", "wanted", VG_CELL_SHARE, false},
    {"RUN", "run", VG_CELL_SHARE, false},
    {"LOST", "lost", VG_CELL_SHARE, false},
    {"CPU %", "cpu_intensity", VG_CELL_PERCENT, false},
    {"GPU %", "gpu_intensity", VG_CELL_PERCENT, false},
    {"SEEN", "age", VG_CELL_TEXT, false},
};

static void
vm_list_complete(json_object *row, int64_t now_ns)
{
    const int64_t at_ns = json_object_get_int64(vg_output_member(row, "at_ns"));
    g_autofree char *age =
        g_strdup_printf("%.0f s", (double)MAX(now_ns - at_ns, 0) / (double)VG_NS_PER_S);

    vg_json_add_string(row, "age", age);
    if (!json_object_get_boolean(vg_output_member(row, "gpu_known")))
        vg_json_add(row, "gpu_intensity", NULL);
}

int
vg_vm_list_all(const struct vg_online_args *args, const struct vg_vm_list_args *wanted,
               vg_client *client, GError **err)
{
    static const char *const lists[] = {"items", NULL};
    g_autoptr(GString) path = g_string_new("/v1/cluster/vms");
    g_autofree char *limit =
        wanted->limit > 0 ? g_strdup_printf("%" G_GINT64_FORMAT, wanted->limit) : NULL;
    g_autoptr(json_object) document = NULL;

    vg_online_add_parameter(path, "host", wanted->host);
    vg_online_add_parameter(path, "class", wanted->vm_class);
    vg_online_add_parameter(path, "limit", limit);
    if (vg_client_get(client, path->str, lists, &document, err) < 0)
        return -1;
    json_object *items = vg_output_member(document, "items");
    const size_t n = vg_output_length(items);
    const int64_t total = json_object_get_int64(vg_output_member(document, "total"));
    if (wanted->limit == 0 && total > (int64_t)n)
        vg_cli_warn("%zu of %" G_GINT64_FORMAT " VMs are shown, those with the largest losses; "
                    "select others with --host or --class",
                    n, total);
    g_autoptr(json_object) rows = vg_online_rows(items);
    for (size_t i = 0; i < json_object_array_length(rows); i++)
        vm_list_complete(json_object_array_get_idx(rows, i), vg_clock_realtime_ns());
    const struct vg_table table = {NULL, rows, vm_list_columns, G_N_ELEMENTS(vm_list_columns),
                                   wanted->host || wanted->vm_class ? "no VM matches"
                                                                    : "vgpud has found no VM yet"};
    return vg_output_print(args->format, items, &table, 1, err);
}
