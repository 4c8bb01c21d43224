/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl peer list: lists the other vgpuds that this one knows.
 */
#include "config.h"

#include <math.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/online-args.h"

static const struct vg_column list_columns[] = {
    {"PEER", "name", VG_CELL_TEXT, false},
    {"HOST", "host", VG_CELL_TEXT, false},
    {"PROVED", "host_proof", VG_CELL_TEXT, true},
    {"STATE", "state", VG_CELL_TEXT, false},
    {"VMS", "vms", VG_CELL_COUNT, false},
    {"VERSION", "version", VG_CELL_TEXT, false},
    {"CLOCK", "clock", VG_CELL_TEXT, false},
    {"ANSWERED (UTC)", "answered", VG_CELL_TIME, false},
    {"URL", "url", VG_CELL_TEXT, true},
    {"LIBVIRT", "libvirt_uri", VG_CELL_TEXT, true},
    {"WHY NOT", "reason", VG_CELL_TEXT, false},
};

/* Adds "+0.2 s", by which the clock is ahead of the queried vgpud's, or "same" if the difference is
 * within the round-trip time. */
static void
peer_add_clock(json_object *row)
{
    if (!json_object_get_boolean(vg_output_member(row, "clock_known")))
        return;
    const double difference =
        (double)json_object_get_int64(vg_output_member(row, "clock_difference_ns"));
    const double error = (double)json_object_get_int64(vg_output_member(row, "round_trip_ns"));
    const bool is_same = fabs(difference) <= error;
    g_autofree char *text =
        is_same ? g_strdup("same") : g_strdup_printf("%+.3g s", difference / (double)VG_NS_PER_S);

    vg_json_add_string(row, "clock", text);
}

/* A peer that answers may not be the host that it claims to be. */
static void
peer_add_reason(json_object *row)
{
    const char *reason = json_object_get_string(vg_output_member(row, "reason"));
    const char *host_reason = json_object_get_string(vg_output_member(row, "host_reason"));

    if (!reason && host_reason)
        vg_json_add_string(row, "reason", host_reason);
}

static int
peer_list(void *data, vg_client *client, GError **err)
{
    static const char *const lists[] = {"items", NULL};
    const struct vg_online_args *args = data;
    g_autoptr(json_object) document = NULL;

    if (vg_client_get(client, "/v1/peers", lists, &document, err) < 0)
        return -1;
    json_object *items = vg_output_member(document, "items");
    g_autoptr(json_object) rows = vg_online_rows(items);
    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        json_object *row = json_object_array_get_idx(rows, i);
        peer_add_clock(row);
        peer_add_reason(row);
        if (json_object_get_int64(vg_output_member(row, "answered_ns")) > 0)
            vg_online_add_time(row, "answered", "answered_ns");
    }
    const struct vg_table table = {
        NULL, rows, list_columns, G_N_ELEMENTS(list_columns),
        "this vgpud has no peers; to add one, add a group [peer NAME] to its configuration"};
    return vg_output_print(args->format, items, &table, 1, err);
}

int
vg_cmd_peer(int argc, char **argv)
{
    static const struct vg_online_verb verbs[] = {{"list", VG_OBJECT_NONE, NULL, peer_list}};
    static const struct argp argp = {
        .parser = vg_online_parse_children,
        .args_doc = "list",
        .doc = "Lists the vgpud's peers, whether they answer, and if not, why. `vgpuctl "
               "placement --dry-run` also plans for their hosts.",
        .children = vg_online_children,
    };
    struct vg_online_args args = {
        .verbs = verbs, .n_verbs = G_N_ELEMENTS(verbs), .can_watch = true};

    argp_parse(&argp, argc, argv, 0, NULL, &args);
    return vg_online_run(&args, &args);
}
