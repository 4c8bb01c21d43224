/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpu-guestd, which runs in a VM, releases the VM's GPUs before the VM moves, and lets programs
 * use them again afterwards.
 */
#include "config.h"

#include <argp.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guest/agent.h"
#include "guest/conf.h"
#include "guest/cuda-end.h"
#include "guest/manual.h"
#include "guest/status.h"
#include "guest/util.h"

#define DEFAULT_PORT  "/dev/virtio-ports/org.vgpud.guest.0"
#define DEFAULT_HOOKS "/etc/vgpud/guest-hooks.d"

const char *argp_program_version = "vgpu-guestd " PACKAGE_VERSION;

enum { OPTION_PORT = 1000, OPTION_HOOKS, OPTION_CONFIG, OPTION_LISTEN, OPTION_SYSROOT };

static const struct argp_option options[] = {
    {"port", OPTION_PORT, "PATH", 0, "the virtio port (" DEFAULT_PORT ")", 0},
    {"hooks", OPTION_HOOKS, "DIR", 0, "directory of the hooks (" DEFAULT_HOOKS ")", 0},
    {"config", OPTION_CONFIG, "FILE", 0, "configuration file (" VG_GUEST_CONFIG_FILE ")", 0},
    {"listen", OPTION_LISTEN, "SOCKET", 0,
     "for tests: listen on this unix socket instead of opening the port", 0},
    {"sysroot", OPTION_SYSROOT, "DIR", 0, "for tests: prefix of /sys, /proc and /dev", 0},
    {0},
};

typedef int command_fn(const struct vg_guest_config *config);

static const struct {
    const char *name;
    command_fn *run;
} commands[] = {{"status", vg_guest_status_print},
                {"try", vg_guest_manual_try},
                {"restore", vg_guest_manual_restore}};

/* The command that takes the pid of a process. */
#define COMMAND_END "end"

struct args {
    struct vg_guest_config config;
    /* The process that `end` ends, or 0 for another command. */
    pid_t pid;
    bool ends;
    /* NULL for the default one. */
    const char *config_file;
    /* NULL to run as the agent. */
    command_fn *command;
};

/* Parses a command, or the pid of the process to end. */
static void
parse_word(struct args *args, const char *word, struct argp_state *state)
{
    char *rest;
    long pid = strtol(word, &rest, 10);

    if (state->arg_num == 1 && args->ends) {
        if (*rest || pid <= 1 || pid > INT_MAX)
            argp_error(state, "'%s' is not a process ID", word);
        args->pid = (pid_t)pid;
        return;
    }
    for (size_t i = 0; i < sizeof commands / sizeof *commands && state->arg_num == 0; i++) {
        if (strcmp(word, commands[i].name) == 0)
            args->command = commands[i].run;
    }
    args->ends = state->arg_num == 0 && strcmp(word, COMMAND_END) == 0;
    if (state->arg_num > 0)
        argp_error(state, "unexpected argument '%s'", word);
    if (!args->command && !args->ends)
        argp_error(state,
                   "'%s' is not a command; the commands are `status`, `try`, `restore` and "
                   "`end PID`",
                   word);
}

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
        parse_word(args, arg, state);
        break;
    case ARGP_KEY_END:
        if (args->ends && args->pid == 0)
            argp_error(state, "`end` needs a process ID");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "[status | try | restore | end PID]",
    .doc =
        "Makes programs release this VM's GPUs before a move, and resume after it, at the request "
        "of the host's vgpud.\vWith `status`, prints its state: the port, hooks, CUDA and OpenCL "
        "programs, and GPUs with the processes that hold them. With `try`, releases these "
        "programs, restores them immediately, and prints how long they were paused. With "
        "`restore`, restores programs that stayed released. With `end`, ends a CUDA program after "
        "it has released its GPUs.",
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
    } else if (result == 0 && args.ends) {
        result = vg_cuda_end(&args.config, args.pid);
    } else if (result == 0) {
        if (geteuid() != 0)
            vg_guest_log(LOG_WARNING,
                         "not root: other users' processes that hold a GPU are not visible, and no "
                         "driver can be unbound");
        result = vg_guest_agent_run(&args.config);
    }
    vg_guest_config_clear(&args.config);
    return result;
}
