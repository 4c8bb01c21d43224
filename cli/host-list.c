/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/host-list.h"

#include "base/clock.h"
#include "base/json.h"

static const struct vg_column host_list_columns[] = {
    {"HOST", "name", VG_CELL_TEXT, false},
    {"STATE", "state", VG_CELL_TEXT, false},
    {"SEEN", "age", VG_CELL_TEXT, false},
    {"MAINTENANCE", "maintenance_text", VG_CELL_TEXT, false},
    {"CPUS", "summary.cpus", VG_CELL_COUNT, false},
    {"VMS", "summary.vms", VG_CELL_COUNT, false},
    {"WANTED", "summary.wanted", VG_CELL_SHARE, false},
    {"LOST", "summary.lost", VG_CELL_SHARE, false},
    {"FREE GiB", "free_gib", VG_CELL_TEXT, false},
    {"GPUS", "summary.gpus", VG_CELL_COUNT, false},
    {"GPUS FREE", "summary.gpus_free", VG_CELL_COUNT, false},
    {"LARGEST FREE", "summary.gpu_largest", VG_CELL_TEXT, true},
    {"VERSION", "version", VG_CELL_TEXT, false},
    {"STORE GiB", "store_gib", VG_CELL_TEXT, false},
    {"URL", "url", VG_CELL_TEXT, true},
    {"LIBVIRT", "libvirt_uri", VG_CELL_TEXT, true},
    {"WHY NOT", "reason", VG_CELL_TEXT, false},
};

/* Adds the time since the host was known to be alive, for example "3 s". */
static void
host_list_add_age(json_object *row)
{
    json_object *age = vg_output_member(row, "age_ns");

    if (!age)
        return;
    const double seconds = (double)json_object_get_int64(age) / (double)VG_NS_PER_S;
    g_autofree char *text = seconds < 120 ? g_strdup_printf("%.0f s", seconds)
                                          : g_strdup_printf("%.0f min", seconds / 60);
    vg_json_add_string(row, "age", text);
}

static void
host_list_add_gib(json_object *row, const char *name, const char *member, int decimals)
{
    const int64_t bytes = json_object_get_int64(vg_output_member(row, member));

    if (bytes <= 0)
        return;
    g_autofree char *text =
        g_strdup_printf("%.*f", decimals, (double)bytes / (1024.0 * 1024 * 1024));
    vg_json_add_string(row, name, text);
}

int
vg_host_list_all(const struct vg_online_args *args, vg_client *client, GError **err)
{
    static const char *const lists[] = {"items", NULL};
    g_autoptr(json_object) document = NULL;

    if (vg_client_get(client, "/v1/hosts", lists, &document, err) < 0)
        return -1;
    json_object *items = vg_output_member(document, "items");
    g_autoptr(json_object) rows = vg_online_rows(items);
    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        json_object *row = json_object_array_get_idx(rows, i);
        host_list_add_age(row);
        if (json_object_get_boolean(vg_output_member(row, "maintenance")))
            vg_json_add_string(row, "maintenance_text", "yes");
        host_list_add_gib(row, "free_gib", "summary.memory_free_bytes", 1);
        host_list_add_gib(row, "store_gib", "summary.store_bytes", 2);
    }
    const struct vg_table table = {NULL, rows, host_list_columns, G_N_ELEMENTS(host_list_columns),
                                   NULL};
    return vg_output_print(args->format, items, &table, 1, err);
}
