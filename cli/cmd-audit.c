/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl audit: lists the requests that vgpud has audited.
 */
#include "config.h"

#include <inttypes.h>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/online-args.h"

enum { KEY_LIMIT = 0xa00 };

#define LIMIT_DEFAULT 100
#define LIMIT_MAX     1000000
#define PAGE_MAX      10000 /* vgpud's maximum */

struct audit_args {
    struct vg_online_args online;
    int64_t limit;
};

static const struct vg_column audit_columns[] = {
    {"WHEN (UTC)", "at", VG_CELL_TIME, false},     {"WHO", "identity", VG_CELL_TEXT, false},
    {"ROLE", "role", VG_CELL_TEXT, true},          {"FROM", "origin", VG_CELL_TEXT, false},
    {"METHOD", "method", VG_CELL_TEXT, false},     {"WHAT", "route", VG_CELL_TEXT, false},
    {"OBJECT", "object", VG_CELL_TEXT, false},     {"STATUS", "status", VG_CELL_COUNT, false},
    {"TIMES", "count", VG_CELL_COUNT, false},      {"NUMBER", "seq", VG_CELL_COUNT, true},
    {"REQUEST", "request_id", VG_CELL_TEXT, true},
};

static int
audit_show(void *data, vg_client *client, GError **err)
{
    const struct audit_args *args = data;
    g_autofree char *path = g_strdup_printf("/v1/audit?limit=%" PRId64, MIN(args->limit, PAGE_MAX));
    g_autoptr(json_object) items = NULL;

    if (vg_client_list_some(client, path, (size_t)args->limit, &items, err) < 0)
        return -1;
    g_autoptr(json_object) rows = vg_online_rows(items);
    for (size_t i = 0; i < json_object_array_length(rows); i++)
        vg_online_add_time(json_object_array_get_idx(rows, i), "at", "at_ns");
    const struct vg_table table = {NULL, rows, audit_columns, G_N_ELEMENTS(audit_columns),
                                   "no changes have been requested"};
    return vg_output_print(args->online.format, items, &table, 1, err);
}

static error_t
audit_parse(int key, char *arg, struct argp_state *state)
{
    struct audit_args *args = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->online;
        break;
    case KEY_LIMIT:
        if (!g_ascii_string_to_signed(arg, 10, 1, LIMIT_MAX, &args->limit, NULL))
            vg_cli_usage(state, "--limit must be a number from 1 to %d, not '%s'", LIMIT_MAX, arg);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

int
vg_cmd_audit(int argc, char **argv)
{
    static const struct vg_online_verb verb = {.show = audit_show};
    static const struct argp_option options[] = {
        {"limit", KEY_LIMIT, "N", 0, "show only the newest N requests (default: 100)", 1},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = audit_parse,
        .doc = "Lists requests that made changes, newest first, and the number of "
               "unauthenticated requests that vgpud refused. Requires the role admin.",
        .children = vg_online_children,
    };
    struct audit_args args = {.online = {.verbs = &verb, .n_verbs = 1, .can_watch = true},
                              .limit = LIMIT_DEFAULT};

    argp_parse(&argp, argc, argv, 0, NULL, &args);
    return vg_online_run(&args.online, &args);
}
