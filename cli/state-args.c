/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/state-args.h"

#include <string.h>

#include "base/file.h"
#include "cli/cli.h"
#include "client/client.h"

enum { KEY_STATE = 0x300, KEY_RULE, KEY_CONFIG };

static const struct argp_option options[] = {
    {"state", KEY_STATE, "FILE", 0, "saved snapshot, one for each host; - is standard input", 1},
    {"rule", KEY_RULE, "RULE", 0, "planning rule: complement (default) or paper-threshold", 2},
    {"config", KEY_CONFIG, "FILE", 0, "file with thresholds and costs; see vgpud-policy(7)", 2},
    {"output", 'o', "FORMAT", 0, "table (default), wide, name, json, yaml or csv", 3},
    {0},
};

static error_t
state_args_parse(int key, char *arg, struct argp_state *state)
{
    struct vg_state_args *args = state->input;
    g_autoptr(GError) error = NULL;
    enum vg_rule_id rule;

    switch (key) {
    case KEY_STATE:
        if (strcmp(arg, "-") == 0 &&
            g_ptr_array_find_with_equal_func(args->paths, arg, g_str_equal, NULL))
            argp_error(state, "--state - is given twice, but standard input can be read only once");
        g_ptr_array_add(args->paths, arg);
        break;
    case KEY_RULE:
        if (vg_rule_from_name(arg, &rule, &error) < 0)
            vg_cli_usage(state, "%s", error->message);
        args->rule = arg;
        break;
    case KEY_CONFIG:
        args->config_path = arg;
        break;
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->remote;
        break;
    case ARGP_KEY_END:
        if (args->paths->len > 0 && vg_remote_args_given(&args->remote))
            argp_error(state, "--state needs no vgpud; --%s does not apply",
                       vg_remote_args_given(&args->remote));
        break;
    case 'o':
        if (vg_output_format_from_name(arg, &args->format, &error) < 0)
            vg_cli_usage(state, "%s", error->message);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp_child children[] = {
    {&vg_remote_argp, 0, "Connection to vgpud, without --state:", 5}, {0}};
const struct argp vg_state_argp = {
    .options = options, .parser = state_args_parse, .children = children};

void
vg_state_args_init(struct vg_state_args *args)
{
    *args = (struct vg_state_args){.paths = g_ptr_array_new(), .format = VG_OUTPUT_TABLE};
}

void
vg_state_args_clear(struct vg_state_args *args)
{
    g_clear_pointer(&args->paths, g_ptr_array_unref);
}

int
vg_state_args_load_config(struct vg_state_args *args, GError **err)
{
    if (vg_cli_read_config(args->config_path, &args->config, NULL, err) < 0)
        return -1;
    return args->rule ? vg_rule_from_name(args->rule, &args->config.rule, err) : 0;
}

static vg_snapshot *
load_one(const char *path, GError **err)
{
    g_autofree char *text = NULL;
    size_t size;

    if (vg_file_read(path, VG_SNAPSHOT_TEXT_MAX, &text, &size, err) < 0)
        return NULL;
    vg_snapshot *snapshot = vg_snapshot_from_json(text, size, err);
    if (!snapshot)
        g_prefix_error(err, "%s: ", path);
    return snapshot;
}

static vg_snapshot *
state_args_query_daemon(const struct vg_remote_args *remote, GError **err)
{
    g_autoptr(vg_client) client = vg_client_new(remote, err);
    g_autofree char *text = NULL;
    size_t size;

    if (!client || vg_client_get_text(client, "/v1/snapshot?peers=true", &text, &size, err) < 0)
        return NULL;
    return vg_snapshot_from_json(text, size, err);
}

vg_snapshot *
vg_state_args_load(struct vg_state_args *args, GError **err)
{
    g_autoptr(GPtrArray) parts = g_ptr_array_new_with_free_func((GDestroyNotify)vg_snapshot_free);

    if (vg_state_args_load_config(args, err) < 0)
        return NULL;
    if (args->paths->len == 0)
        return state_args_query_daemon(&args->remote, err);
    for (unsigned int i = 0; i < args->paths->len; i++) {
        vg_snapshot *part = load_one(g_ptr_array_index(args->paths, i), err);
        if (!part)
            return NULL;
        g_ptr_array_add(parts, part);
    }
    if (parts->len == 1)
        return g_ptr_array_steal_index(parts, 0);
    return vg_snapshot_merge((const vg_snapshot *const *)parts->pdata,
                             (const char *const *)args->paths->pdata, parts->len, err);
}
