/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl placement: plans which VM should move to which host. Prints the plan and changes nothing.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/explain-vm.h"
#include "cli/fold.h"
#include "cli/plan-text.h"
#include "cli/state-args.h"
#include "client/client.h"
#include "model/free-up.h"
#include "policy/policy.h"

enum { KEY_DRY_RUN = 0x400, KEY_EXPLAIN, KEY_COMMANDS, KEY_DETAILED, KEY_DUMP_CONFIG, KEY_FREE_UP };

struct placement_args {
    struct vg_state_args state;
    bool dry_run;
    bool commands;
    bool detailed_exitcode;
    bool dump_config;
    const char *explain;
    const char *free_up;
};

static const struct argp_option options[] = {
    {"dry-run", KEY_DRY_RUN, NULL, 0, "only show the plan; vgpuctl does not execute plans", 0},
    {"explain", KEY_EXPLAIN, "VM", 0, "explain the reasons for and against each host for this VM",
     4},
    {"free-up", KEY_FREE_UP, "TYPE[:N]", 0,
     "plan the cheapest moves that free N slots of a vGPU type on one host; nova: for its newest "
     "request that found no host",
     4},
    {"commands", KEY_COMMANDS, NULL, 0, "also print the equivalent virsh and openstack commands",
     4},
    {"detailed-exitcode", KEY_DETAILED, NULL, 0, "exit with 10 if changes are proposed", 4},
    {"dump-config", KEY_DUMP_CONFIG, NULL, 0, "print the effective configuration and exit", 4},
    {0},
};

static void
cmd_placement_check(const struct placement_args *args, const struct argp_state *state)
{
    g_autoptr(GError) error = NULL;
    g_autofree char *type = NULL;
    int64_t n;

    if (args->dump_config)
        return;
    if (args->free_up && vg_free_up_parse(args->free_up, &type, &n, &error) < 0)
        vg_cli_usage(state, "--free-up: %s", error->message);
    if (args->free_up && (args->state.rule || args->explain))
        argp_error(state, "--free-up is a separate rule; %s does not apply",
                   args->explain ? "--explain" : "--rule");
    if (args->free_up && args->state.paths->len > 0 && strcmp(args->free_up, VG_FREE_UP_NOVA) == 0)
        argp_error(state, "snapshots do not contain nova's requests; specify a vGPU type "
                          "instead of nova");
    if (!args->dry_run && !args->explain)
        argp_error(state, "`vgpuctl placement` only shows a plan; add --dry-run");
    if (args->state.paths->len == 0 && args->state.config_path && !args->explain)
        argp_error(state, "vgpud plans with its own configuration; --config needs --state");
    if (args->explain && (args->commands || args->detailed_exitcode))
        argp_error(state, "--explain makes no plan; %s does not apply",
                   args->commands ? "--commands" : "--detailed-exitcode");
}

static error_t
cmd_placement_parse(int key, char *arg, struct argp_state *state)
{
    struct placement_args *args = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->state;
        break;
    case KEY_DRY_RUN:
        args->dry_run = true;
        break;
    case KEY_EXPLAIN:
        args->explain = arg;
        break;
    case KEY_FREE_UP:
        args->free_up = arg;
        break;
    case KEY_COMMANDS:
        args->commands = true;
        break;
    case KEY_DETAILED:
        args->detailed_exitcode = true;
        break;
    case KEY_DUMP_CONFIG:
        args->dump_config = true;
        break;
    case ARGP_KEY_ARG:
        vg_cli_usage(state, "unexpected argument '%s'; specify snapshots with --state", arg);
        break;
    case ARGP_KEY_END:
        cmd_placement_check(args, state);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static int
print_config(struct placement_args *args, GError **err)
{
    if (vg_state_args_load_config(&args->state, err) < 0)
        return -1;
    g_autofree char *text = vg_policy_config_dump(&args->state.config);
    return vg_cli_print(text, err);
}

/* Prints how to carry out the plan. */
static void
print_apply(const char *id)
{
    g_autofree char *line = g_strdup_printf("`vgpuctl plan apply %s` executes it.", id);
    g_autoptr(GString) text = g_string_new("\n");

    vg_fold_append(text, line, 0, vg_fold_terminal());
    puts(text->str);
}

/* Requests a plan from the running vgpud. */
static vg_plan *
placement_query_daemon(const struct placement_args *args, GError **err)
{
    g_autoptr(vg_client) client = vg_client_new(&args->state.remote, err);
    g_autoptr(json_object) body = json_object_new_object();
    g_autoptr(json_object) document = NULL;
    vg_plan *plan = NULL;

    vg_json_add_bool(body, "dry_run", true);
    if (args->state.rule)
        vg_json_add_string(body, "rule", args->state.rule);
    if (args->free_up)
        vg_json_add_string(body, "free_up", args->free_up);
    if (!client || vg_client_post(client, "/v1/plans", body, &document, err) < 0 ||
        vg_plan_print_document(document, args->state.format, args->commands, &plan, err) < 0)
        return NULL;
    if (plan->verdict == VG_PLAN_CHANGES &&
        (args->state.format == VG_OUTPUT_TABLE || args->state.format == VG_OUTPUT_WIDE))
        print_apply(plan->id);
    return plan;
}

/* Plans with saved snapshots. */
static vg_plan *
plan_offline(const struct placement_args *args, const vg_snapshot *snapshot, GError **err)
{
    const struct vg_policy_config *config = &args->state.config;
    g_autoptr(vg_plan) plan = args->free_up
                                  ? vg_policy_plan_free_up(snapshot, config, args->free_up, err)
                                  : vg_policy_plan(snapshot, config, config->rule, err);

    if (!plan)
        return NULL;
    g_autoptr(json_object) document = vg_plan_to_json(plan);
    if (vg_plan_print(plan, document, args->state.format, args->commands, err) < 0)
        return NULL;
    return g_steal_pointer(&plan);
}

/* Returns the exit code if there was no error. */
static int
placement(struct placement_args *args, GError **err)
{
    if (args->dump_config)
        return print_config(args, err);
    bool online = args->state.paths->len == 0 && !args->explain;
    g_autoptr(vg_snapshot) snapshot = online ? NULL : vg_state_args_load(&args->state, err);
    if (!online && !snapshot)
        return -1;
    if (args->explain)
        return vg_explain_vm(snapshot, &args->state.config, args->explain, args->state.format, err);
    g_autoptr(vg_plan) plan =
        online ? placement_query_daemon(args, err) : plan_offline(args, snapshot, err);
    if (!plan)
        return -1;
    return args->detailed_exitcode && plan->verdict == VG_PLAN_CHANGES ? VG_EXIT_CHANGES
                                                                       : VG_EXIT_OK;
}

int
vg_cmd_placement(int argc, char **argv)
{
    static const struct argp_child children[] = {{&vg_state_argp, 0, NULL, 0}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = cmd_placement_parse,
        .doc = "Recommends which VMs to move to which hosts, and shows the reason, gain and "
               "cost of each move.\vWithout --state, the running vgpud makes the plan. Saved "
               "snapshots come from `vgpuctl snapshot` or `vgpuctl analyze --snapshot`.",
        .children = children,
    };
    struct placement_args args = {0};
    g_autoptr(GError) error = NULL;

    vg_state_args_init(&args.state);
    argp_parse(&argp, argc, argv, 0, NULL, &args);
    int code = placement(&args, &error);
    vg_state_args_clear(&args.state);
    return error ? vg_cli_fail(error) : code;
}
