/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/host-drain.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/cli.h"

static const struct vg_column host_drain_columns[] = {
    {"VM", "vm", VG_CELL_TEXT, false},         {"UUID", "uuid", VG_CELL_TEXT, true},
    {"STATE", "step", VG_CELL_TEXT, false},    {"TO", "to", VG_CELL_TEXT, false},
    {"MOVE", "migration", VG_CELL_TEXT, true}, {"REASON", "reason", VG_CELL_TEXT, false},
};

/* The time for which vgpud may be unreachable while vgpuctl waits. */
#define AWAY_NS (60 * VG_NS_PER_S)

static const char *
host_drain_state(json_object *document)
{
    const char *state = json_object_get_string(vg_output_member(document, "state"));

    return state ? state : "";
}

/* Returns for example "2 of 5 VMs have left; about 30 s to go". */
static char *
host_drain_text(json_object *document)
{
    const int64_t moved = json_object_get_int64(vg_output_member(document, "moved"));
    const int64_t left = json_object_get_int64(vg_output_member(document, "left"));
    const double eta_s = json_object_get_double(vg_output_member(document, "eta_s"));
    GString *text = g_string_new(NULL);

    g_string_append_printf(text, "%" G_GINT64_FORMAT " of %" G_GINT64_FORMAT " VMs have left",
                           moved, moved + left);
    if (eta_s > 0)
        g_string_append_printf(text, "; about %.0f s left", eta_s);
    return g_string_free(text, FALSE);
}

static int
host_drain_print(const struct vg_online_args *args, json_object *document, GError **err)
{
    json_object *vms = vg_output_member(document, "vms");
    g_autofree char *text = host_drain_text(document);
    g_autofree char *title = g_strdup_printf(
        "Host %s, %s: %s", json_object_get_string(vg_output_member(document, "host")),
        host_drain_state(document), text);
    g_autoptr(json_object) rows = vg_online_rows(vms);
    const struct vg_table table = {vg_output_length(vms) > 0 ? title : NULL, rows,
                                   host_drain_columns, G_N_ELEMENTS(host_drain_columns),
                                   "the host has no VMs"};

    return vg_output_print(args->format, document, &table, 1, err);
}

/* Sets an error that lists the VMs that stay. */
static int
host_drain_stays(json_object *document, GError **err)
{
    json_object *vms = vg_output_member(document, "vms");
    g_autoptr(GString) text = g_string_new(NULL);

    for (size_t i = 0; i < vg_output_length(vms); i++) {
        json_object *vm = json_object_array_get_idx(vms, i);
        if (g_strcmp0(json_object_get_string(vg_output_member(vm, "step")), "stays") == 0)
            g_string_append_printf(text, "%s%s (%s)", text->len > 0 ? ", " : "",
                                   json_object_get_string(vg_output_member(vm, "vm")),
                                   json_object_get_string(vg_output_member(vm, "reason")));
    }
    return vg_error(err, VG_E_REFUSED, "these VMs stay: %s", text->str);
}

/* Queries the drain until no VM is being moved. *document is the last answer. */
static int
host_drain_wait(const char *path, const struct vg_host_drain_args *wanted, vg_client *client,
                json_object **document, GError **err)
{
    static const char *const lists[] = {"vms", NULL};
    const int64_t begin_ns = vg_clock_monotonic_ns();
    int64_t heard_ns = begin_ns;
    g_autofree char *told = NULL;

    while (strcmp(host_drain_state(*document), "running") == 0) {
        const int64_t now_ns = vg_clock_monotonic_ns();
        g_autofree char *text = host_drain_text(*document);
        json_object *next = NULL;
        g_autoptr(GError) error = NULL;
        if (g_strcmp0(told, text) != 0)
            fprintf(stderr, "%s\n", text);
        g_free(told);
        told = g_steal_pointer(&text);
        if (wanted->timeout_s > 0 && now_ns - begin_ns > wanted->timeout_s * VG_NS_PER_S)
            return vg_error(err, VG_E_TIMEOUT,
                            "the drain continues; `vgpuctl host drain %s` shows its progress",
                            json_object_get_string(vg_output_member(*document, "host")));
        g_usleep(G_USEC_PER_SEC);
        if (vg_client_get(client, path, lists, &next, &error) == 0) {
            json_object_put(*document);
            *document = next;
            heard_ns = now_ns;
        } else if (!g_error_matches(error, VG_ERROR, VG_E_UNREACHABLE) ||
                   now_ns - heard_ns > AWAY_NS) {
            g_propagate_error(err, g_steal_pointer(&error));
            return -1;
        }
    }
    return 0;
}

int
vg_host_drain(const struct vg_online_args *args, const struct vg_host_drain_args *wanted,
              vg_client *client, GError **err)
{
    g_autofree char *path = vg_client_path("/v1/hosts/", args->object, "/drain");
    g_autoptr(json_object) body = json_object_new_object();
    json_object *answer = NULL;

    vg_json_add_bool(body, "dry_run", wanted->dry_run);
    if (vg_client_post(client, path, body, &answer, err) < 0)
        return -1;
    int status = wanted->wait ? host_drain_wait(path, wanted, client, &answer, err) : 0;
    g_autoptr(json_object) document = answer;
    if (status == 0)
        status = host_drain_print(args, document, err);
    if (status == 0 && wanted->wait && strcmp(host_drain_state(document), "blocked") == 0)
        return host_drain_stays(document, err);
    return status;
}

int
vg_host_undrain(const struct vg_online_args *args, vg_client *client, GError **err)
{
    g_autofree char *path = vg_client_path("/v1/hosts/", args->object, "/drain");

    return vg_client_delete(client, path, err);
}
