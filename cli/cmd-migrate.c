/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl migrate: moves a VM with its GPUs to another host.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/follow.h"
#include "cli/move-check.h"
#include "cli/move-options.h"
#include "cli/online-args.h"

enum { KEY_TO = 0xb00, KEY_DRY_RUN, KEY_NO_AGENT, KEY_MODE, KEY_GPU_DURING, KEY_PLAN, KEY_KEY };

struct migrate_args {
    struct vg_online_args online;
    struct vg_move_options options;
    const char *to;
    const char *mode;
    const char *gpu_during; /* may be NULL */
    const char *plan;
    const char *key; /* NULL for a new key */
    bool dry_run;
    bool no_agent;
};

/* ---- requests ---- */

static int
migrate_add_plan(vg_client *client, const char *plan, json_object *body, GError **err)
{
    static const char *const lists[] = {"actions", NULL};
    g_autofree char *path = vg_client_path("/v1/plans/", plan, "");
    g_autoptr(json_object) document = NULL;

    if (vg_client_get(client, path, lists, &document, err) < 0)
        return -1;
    vg_json_add_string(body, "plan_id", plan);
    vg_json_add_string(body, "plan_hash",
                       json_object_get_string(vg_output_member(document, "input_hash")));
    return 0;
}

static int
migrate_send(const struct migrate_args *args, vg_client *client, json_object *body, GError **err)
{
    g_autofree char *key = args->key ? g_strdup(args->key) : g_uuid_string_random();
    g_auto(vg_follow) follow = {0};

    if (args->dry_run) {
        g_autoptr(json_object) check = NULL;
        if (vg_move_check_ask(client, body, &check, err) < 0)
            return -1;
        return vg_move_check_print(check, args->online.format, err);
    }
    if (vg_follow_start(client, body, key, &follow, err) < 0)
        return -1;
    return vg_move_options_finish(&args->options, client, &follow, VG_MIGRATION_DONE,
                                  args->online.format, err);
}

static int
migrate_run(void *data, vg_client *client, GError **err)
{
    const struct migrate_args *args = data;
    g_autoptr(json_object) body = json_object_new_object();

    vg_json_add_string(body, "vm", args->online.object);
    vg_json_add_string(body, "to", args->to);
    vg_json_add_bool(body, "forward", true);
    if (args->dry_run)
        vg_json_add_bool(body, "dry_run", true);
    if (args->no_agent)
        vg_json_add_bool(body, "no_agent", true);
    if (args->mode)
        vg_json_add_string(body, "mode", args->mode);
    if (args->gpu_during)
        vg_json_add_string(body, "gpu_during", args->gpu_during);
    if (args->plan && migrate_add_plan(client, args->plan, body, err) < 0)
        return -1;
    vg_follow_catch_begin(client);
    int status = migrate_send(args, client, body, err);
    vg_follow_catch_end();
    return status;
}

/* ---- arguments ---- */

static void
migrate_check(const struct migrate_args *args, const struct argp_state *state)
{
    if (!args->to || !args->to[0])
        argp_error(state, "specify the target host with --to");
    if (args->dry_run && args->options.wait)
        argp_error(state, "--wait cannot be combined with --dry-run, which starts nothing");
    if (args->mode && strcmp(args->mode, "detach") != 0 && strcmp(args->mode, "native") != 0)
        argp_error(state, "--mode must be detach or native, not '%s'", args->mode);
    vg_move_options_check(&args->options, args->options.wait, state);
}

static error_t
migrate_parse(int key, char *arg, struct argp_state *state)
{
    struct migrate_args *args = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->options;
        state->child_inputs[1] = &args->online;
        break;
    case KEY_TO:
        args->to = arg;
        break;
    case KEY_DRY_RUN:
        args->dry_run = true;
        break;
    case KEY_NO_AGENT:
        args->no_agent = true;
        break;
    case KEY_MODE:
        args->mode = arg;
        break;
    case KEY_GPU_DURING:
        args->gpu_during = arg;
        break;
    case KEY_PLAN:
        args->plan = arg;
        break;
    case KEY_KEY:
        args->key = arg;
        break;
    case ARGP_KEY_END:
        migrate_check(args, state);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

int
vg_cmd_migrate(int argc, char **argv)
{
    static const struct vg_online_verb verb = {
        .object = VG_OBJECT_REQUIRED,
        .object_hint = "specify the VM to move; `vgpuctl vm list` shows all VMs",
        .show = migrate_run,
    };
    static const struct argp_option options[] = {
        {"to", KEY_TO, "HOST", 0, "the target host, by host name or peer name", 1},
        {"dry-run", KEY_DRY_RUN, NULL, 0, "only check for obstacles and show the steps", 1},
        {"no-agent", KEY_NO_AGENT, NULL, 0,
         "unplug the GPUs without asking programs in the guest to release them", 1},
        {"mode", KEY_MODE, "MODE", 0,
         "detach: unplug the GPUs for the migration; native: let QEMU migrate their state "
         "(default: native where possible)",
         1},
        {"gpu-during", KEY_GPU_DURING, "PLACE", 0,
         "let OpenCL programs use a vgpu-proxy while the VM has no GPU: proxy:PATH, where PATH "
         "is the proxy's address in the guest, or proxy for the proxy that vgpud knows for this "
         "VM",
         1},
        {"plan", KEY_PLAN, "PLAN", 0,
         "the plan that the move belongs to; vgpud refuses the move if the plan is out of date", 1},
        {"idempotency-key", KEY_KEY, "KEY", 0,
         "get the result of a request whose answer was lost; the error message contained this key",
         1},
        {0},
    };
    static const struct argp_child children[] = {
        {&vg_move_options_argp, 0, NULL, 1}, {&vg_online_once_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = migrate_parse,
        .args_doc = "VM --to HOST",
        .doc = "Moves a VM with its GPUs to another host. The move continues even if this command "
               "ends. If a step fails, vgpud undoes the earlier steps. `vgpuctl migration` shows "
               "and controls moves.",
        .children = children,
    };
    struct migrate_args args = {.online = {.verbs = &verb, .n_verbs = 1}};

    argp_parse(&argp, argc, argv, 0, NULL, &args);
    int code = vg_online_run(&args.online, &args);
    vg_follow_die_if_caught();
    return code;
}
