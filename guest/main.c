/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpu-guestd, which runs in a VM, has the VM's GPUs released before the VM moves, and taken up
 * again afterwards.
 */
#include "config.h"

#include <argp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "guest/agent.h"
#include "guest/conf.h"
#include "guest/hand.h"
#include "guest/status.h"
#include "guest/util.h"

#define DEFAULT_PORT  "/dev/virtio-ports/org.vgpud.guest.0"
#define DEFAULT_HOOKS "/etc/vgpud/guest-hooks.d"

const char *argp_program_version = "vgpu-guestd " PACKAGE_VERSION;

enum { OPTION_PORT = 1000, OPTION_HOOKS, OPTION_CONFIG, OPTION_LISTEN, OPTION_SYSROOT };

static const struct argp_option options[] = {
    {"port", OPTION_PORT, "PATH", 0, "The virtio port (" DEFAULT_PORT ")", 0},
    {"hooks", OPTION_HOOKS, "DIR", 0, "Where the hooks are (" DEFAULT_HOOKS ")", 0},
    {"config", OPTION_CONFIG, "FILE", 0, "The configuration (" VG_GUEST_CONFIG_FILE ")", 0},
    {"listen", OPTION_LISTEN, "SOCKET", 0,
     "For tests: listen on this unix socket instead of opening the port", 0},
    {"sysroot", OPTION_SYSROOT, "DIR", 0, "For tests: what is before /sys, /proc and /dev", 0},
    {0},
};

typedef int command_fn(const struct vg_guest_config *config);

static const struct {
    const char *name;
    command_fn *run;
} commands[] = {{"status", vg_guest_status_print},
                {"try", vg_guest_hand_try},
                {"restore", vg_guest_hand_restore}};

struct args {
    struct vg_guest_config config;
    /* NULL for the default one. */
    const char *config_file;
    /* NULL to run as the agent. */
    command_fn *command;
};

static error_t
parse(int key, char *arg, struct argp_state *state)
{
    struct args *args = state->input;

    switch (key) {
    case OPTION_PORT:
        args->config.port = arg;
        break;
    case OPTION_HOOKS:
        args->config.hooks = arg;
        break;
    case OPTION_CONFIG:
        args->config_file = arg;
        break;
    case OPTION_LISTEN:
        args->config.listen = arg;
        break;
    case OPTION_SYSROOT:
        args->config.root = arg;
        break;
    case ARGP_KEY_ARG:
        for (size_t i = 0; i < sizeof commands / sizeof *commands && state->arg_num == 0; i++) {
            if (strcmp(arg, commands[i].name) == 0)
                args->command = commands[i].run;
        }
        if (state->arg_num > 0 || !args->command)
            argp_error(state, "'%s' is no command; there are `status`, `try` and `restore`", arg);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "[status | try | restore]",
    .doc =
        "Has the GPUs of this VM released before it moves, and taken back after, as vgpud on its "
        "host asks.\v"
        "With `status`, prints what it sees: the port, hooks, programs of CUDA and OpenCL, GPUs "
        "and who holds them. With `try`, releases these programs and brings them back at once, and "
        "prints how long they stood still. With `restore`, brings back those that stayed released.",
};

int
main(int argc, char **argv)
{
    struct args args = {.config = {.port = DEFAULT_PORT, .hooks = DEFAULT_HOOKS, .root = ""}};

    argp_err_exit_status = 2;
    argp_parse(&argp, argc, argv, 0, NULL, &args);
    int result = vg_guest_config_read(&args.config, args.config_file) == 0 ? 0 : 2;
    if (result == 0 && args.command) {
        result = args.command(&args.config);
    } else if (result == 0) {
        if (geteuid() != 0)
            vg_guest_log(LOG_WARNING,
                         "not root: processes of other users that hold a GPU are not seen, "
                         "and no driver can be unbound");
        result = vg_guest_agent_run(&args.config);
    }
    vg_guest_config_clear(&args.config);
    return result;
}
