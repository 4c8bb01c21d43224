/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl: finds the command in the table and runs it.
 */
#include "config.h"

#include <argp.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/printable.h"

static const struct vg_cli_command commands[] = {
    {"host", "the host that vgpud watches, its GPUs, and how vgpud is doing", vg_cmd_host},
    {"vm", "its VMs: now, in detail, and in the past", vg_cmd_vm},
    {"gpu", "its GPUs, who uses them, and their requests", vg_cmd_gpu},
    {"preemptions", "who takes the CPU from whom", vg_cmd_preemptions},
    {"top", "the VMs as they are now, on the whole screen", vg_cmd_top},
    {"events", "what happens, as it happens", vg_cmd_events},
    {"plan", "the plans that vgpud has made, and how to carry one out", vg_cmd_plan},
    {"migrate", "move a VM with its GPUs to another host", vg_cmd_migrate},
    {"migration", "the moves of VMs: list, show, watch, abort, undo", vg_cmd_migration},
    {"record", "a short recording of this host, for analyze", vg_cmd_record},
    {"analyze", "figures of every VM in a recorded trace", vg_cmd_analyze},
    {"snapshot", "the state of a host, from vgpud or a recorded trace", vg_cmd_snapshot},
    {"placement", "which VM should move where, and why", vg_cmd_placement},
    {"simulate", "what a GPU scheduler makes of the vGPUs of a scenario", vg_cmd_simulate},
    {"explain", "why a VM is where it is; what a measure or rule means", vg_cmd_explain},
    {"peer", "the other vgpuds that vgpud knows", vg_cmd_peer},
    {"nova", "whether OpenStack's scheduler gets on with vgpud", vg_cmd_nova},
    {"token", "who may ask vgpud over the network", vg_cmd_token},
    {"audit", "who had vgpud do what", vg_cmd_audit},
    {"context", "the vgpuds that this user asks, by name", vg_cmd_context},
    {"version", "the version of this program", vg_cmd_version},
};

static void
print_usage(FILE *to)
{
    fprintf(to, "Usage: vgpuctl COMMAND [OPTION...]\n"
                "Shows who fights for the CPUs and GPUs of a KVM host, and what to do about it.\n\n"
                "Commands:\n");
    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++)
        fprintf(to, "  %-11s %s\n", commands[i].name, commands[i].summary);
    fprintf(to, "\n`vgpuctl COMMAND --help` tells a command's options; vgpuctl(1) tells all.\n");
}

/* Every stream of a trace needs file descriptors, and a big host has many streams. */
static void
raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* Traces are read through memory maps, which end in this signal where a file has become shorter. */
static void
on_bus_error(int signal_number)
{
    static const char text[] = "vgpuctl: a trace file became shorter while it was read\n";

    (void)signal_number;
    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    _exit(VG_EXIT_ERROR);
}

static int
run(const struct vg_cli_command *command, int argc, char **argv)
{
    g_autofree char *name = g_strdup_printf("vgpuctl %s", command->name);

    argv[0] = name;
    return command->run(argc, argv);
}

int
main(int argc, char **argv)
{
    setlocale(LC_CTYPE, "");
    argp_err_exit_status = VG_EXIT_USAGE;
    raise_file_limit();
    signal(SIGBUS, on_bus_error);
    if (argc < 2) {
        print_usage(stderr);
        return VG_EXIT_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-?") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_usage(stdout);
        return fflush(stdout) == 0 ? VG_EXIT_OK : VG_EXIT_ERROR;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
        return vg_cmd_version(1, argv);
    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++) {
        if (strcmp(argv[1], commands[i].name) == 0)
            return run(&commands[i], argc - 1, argv + 1);
    }
    g_autofree char *name = vg_printable_text(argv[1]);
    fprintf(stderr, "vgpuctl: there is no command '%s'; `vgpuctl --help` lists them\n", name);
    return VG_EXIT_USAGE;
}
