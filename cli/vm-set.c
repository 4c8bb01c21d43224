/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/vm-set.h"

#include <string.h>

#include "base/json.h"
#include "cli/cli.h"
#include "cli/online-args.h"

enum { KEY_POLICY = 0x300 };

struct vm_set_args {
    struct vg_online_args online;
    const char *policy; /* NULL if not given */
};

static int
vm_set_run(void *data, vg_client *client, GError **err)
{
    const struct vm_set_args *args = data;
    g_autofree char *path = vg_client_vm_path(args->online.object, "/policy");
    g_autoptr(json_object) body = json_object_new_object();
    g_autoptr(json_object) answer = NULL;

    vg_json_add_string(body, "mode", strcmp(args->policy, "none") == 0 ? "" : args->policy);
    return vg_client_post(client, path, body, &answer, err);
}

static error_t
vm_set_parse(int key, char *arg, struct argp_state *state)
{
    static const char *const modes[] = {"never", "propose", "act", "none", NULL};
    struct vm_set_args *args = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->online;
        break;
    case KEY_POLICY:
        if (!g_strv_contains(modes, arg))
            vg_cli_usage(state, "--policy must be never, propose, act or none, not '%s'", arg);
        args->policy = arg;
        break;
    case ARGP_KEY_END:
        if (!args->policy)
            argp_error(state, "specify the policy with --policy=never|propose|act|none");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

int
vg_vm_set(int argc, char **argv)
{
    static const char hint[] = "specify a VM; `vgpuctl vm list` shows all VMs";
    static const struct vg_online_verb verbs[] = {{"set", VG_OBJECT_REQUIRED, hint, vm_set_run}};
    static const struct argp_option options[] = {
        {"policy", KEY_POLICY, "MODE", 0,
         "never: plans do not move the VM; propose: plans may propose a move, but only a person "
         "starts it; act: vgpud may move the VM automatically; none: the policy of its host "
         "applies",
         1},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = vm_set_parse,
        .args_doc = "set VM",
        .doc = "Sets the policy for a VM of the host, in the VM's libvirt metadata. Requires "
               "the role operator.",
        .children = vg_online_silent_children,
    };
    struct vm_set_args args = {
        .online = {.verbs = verbs, .n_verbs = G_N_ELEMENTS(verbs), .silent = true}};

    argp_parse(&argp, argc, argv, 0, NULL, &args);
    return vg_online_run(&args.online, &args);
}
