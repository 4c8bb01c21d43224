/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl: finds the command in the table, and runs it.
 */
#include "config.h"

#include <argp.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "base/printable.h"
#include "cli/cli.h"
#include "cli/nearest.h"

static const struct vg_cli_command commands[] = {
    {"doctor", "check the installation: what works, what to fix, and how", vg_cmd_doctor},
    {"host", "the host, its GPUs, and the state of vgpud; drain a host", vg_cmd_host},
    {"vm", "the host's VMs: now, in detail, and in the past", vg_cmd_vm},
    {"gpu", "the host's GPUs, their users, and their requests", vg_cmd_gpu},
    {"preemptions", "which VMs and programs take CPU time from which VMs", vg_cmd_preemptions},
    {"top", "a live, full-screen view of the VMs", vg_cmd_top},
    {"alert", "the active alerts", vg_cmd_alert},
    {"events", "events, as they happen or from the past", vg_cmd_events},
    {"plan", "vgpud's plans: list, show, apply, undo", vg_cmd_plan},
    {"policy", "whether moves helped; pause and resume automatic moves", vg_cmd_policy},
    {"migrate", "move a VM with its GPUs to another host", vg_cmd_migrate},
    {"migration", "moves of VMs: list, show, watch, abort, retry, undo", vg_cmd_migration},
    {"vulkan", "Vulkan for a VM without its own GPU: enable, disable", vg_cmd_vulkan},
    {"proxy", "VMs that use a GPU through vgpu-proxy: list, limit, move", vg_cmd_proxy},
    {"record", "make a short recording of this host", vg_cmd_record},
    {"analyze", "compute the figures of each VM from a recorded trace", vg_cmd_analyze},
    {"snapshot", "print the state of a host, from vgpud or a recorded trace", vg_cmd_snapshot},
    {"placement", "recommend which VMs should move where, and why", vg_cmd_placement},
    {"simulate", "simulate how a GPU scheduler shares a GPU", vg_cmd_simulate},
    {"explain", "explain where a VM could run and why, or a term of the output", vg_cmd_explain},
    {"peer", "the other vgpuds that this vgpud cooperates with", vg_cmd_peer},
    {"nova", "check the connection with OpenStack's nova-scheduler", vg_cmd_nova},
    {"token", "tokens for access over the network", vg_cmd_token},
    {"audit", "a log of requested changes, and who requested them", vg_cmd_audit},
    {"ui", "charts in a browser, of VMs that take CPU time from others", vg_cmd_ui},
    {"context", "saved connections to vgpuds", vg_cmd_context},
    {"version", "print the version", vg_cmd_version},
};

static void
print_usage(FILE *to)
{
    fprintf(to, "Usage: vgpuctl COMMAND [OPTION...]\n"
                "Shows which VMs compete for the CPUs and GPUs of a KVM host, and moves them.\n"
                "\n"
                "Commands:\n");
    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++)
        fprintf(to, "  %-11s %s\n", commands[i].name, commands[i].summary);
    fprintf(to, "\n"
                "`vgpuctl help COMMAND` lists a command's options; vgpuctl(1) is the full "
                "manual.\n");
}

/* Each stream of a trace needs file descriptors, and a large host has many streams. */
static void
raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* Traces are read through memory maps. If a file has become shorter, an access raises this
 * signal. */
static void
on_bus_error(int signal_number)
{
    static const char text[] = "vgpuctl: a trace file was truncated while it was being read\n";

    (void)signal_number;
    (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
    _exit(VG_EXIT_ERROR);
}

static int
vgpuctl_run(const struct vg_cli_command *command, int argc, char **argv)
{
    g_autofree char *name = g_strdup_printf("vgpuctl %s", command->name);

    argv[0] = name;
    return command->run(argc, argv);
}

static const struct vg_cli_command *
find_command(const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++) {
        if (strcmp(name, commands[i].name) == 0)
            return &commands[i];
    }
    return NULL;
}

static int
refuse_command(const char *name)
{
    const char *names[G_N_ELEMENTS(commands)];
    g_autofree char *shown = vg_printable_text(name);

    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++)
        names[i] = commands[i].name;
    const char *near = vg_nearest(name, names, G_N_ELEMENTS(names));
    fprintf(stderr, "vgpuctl: unknown command '%s'", shown);
    if (near)
        fprintf(stderr, "; did you mean `%s`?", near);
    else
        fprintf(stderr, "; `vgpuctl --help` lists them");
    fputc('\n', stderr);
    return VG_EXIT_USAGE;
}

/* ---- options before the command ---- */

/* Options that may also precede the command. All of them except the last one have an argument. */
static const char *const early_options[] = {
    "--socket", "--server", "--context", "--token-file",      "--cacert",    "--cert",
    "--key",    "--output", "--columns", "--request-timeout", "--no-headers"};

/* Returns whether arg is one of these options. *ret_takes_next is true if the next word is its
 * argument. */
static bool
is_early_option(const char *arg, bool *ret_takes_next)
{
    *ret_takes_next = strcmp(arg, "-o") == 0 || strcmp(arg, "-c") == 0;
    if (*ret_takes_next || (strncmp(arg, "-o", 2) == 0 && arg[2]) ||
        (strncmp(arg, "-c", 2) == 0 && arg[2]))
        return true;
    const size_t length = strcspn(arg, "=");
    for (size_t i = 0; i < G_N_ELEMENTS(early_options); i++) {
        if (strlen(early_options[i]) != length || strncmp(arg, early_options[i], length) != 0)
            continue;
        *ret_takes_next = arg[length] == '\0' && i + 1 < G_N_ELEMENTS(early_options);
        return true;
    }
    return false;
}

/* Counts the words from argv[1] that belong to such options. */
static int
count_early_options(int argc, char **argv)
{
    int n = 0;

    while (1 + n < argc) {
        bool takes_next;
        if (!is_early_option(argv[1 + n], &takes_next))
            break;
        n += takes_next ? 2 : 1;
    }
    return MIN(n, argc - 1);
}

/* Moves the command to the front, followed by the options that preceded it and then the rest: a
 * later option overrides an earlier one. */
static char **
put_command_first(int argc, char **argv, int early)
{
    char **words = g_new0(char *, (size_t)argc + 1);

    words[0] = argv[0];
    words[1] = argv[1 + early];
    for (int i = 0; i < early; i++)
        words[2 + i] = argv[1 + i];
    for (int i = 2 + early; i < argc; i++)
        words[i] = argv[i];
    return words;
}

/* Replaces `help COMMAND` with `COMMAND --help`, and -h with --help unless it is an option's
 * argument. */
static void
main_rewrite_help(int argc, char **argv)
{
    static char help[] = "--help";

    if (argc > 2 && strcmp(argv[1], "help") == 0) {
        argv[1] = argv[2];
        argv[2] = help;
    }
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "-h") == 0 && (i == 1 || argv[i - 1][0] != '-'))
            argv[i] = help;
    }
}

static int
run_words(int argc, char **argv)
{
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-?") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_usage(stdout);
        return fflush(stdout) == 0 ? VG_EXIT_OK : VG_EXIT_ERROR;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0)
        return vg_cmd_version(1, argv);
    const struct vg_cli_command *command = find_command(argv[1]);
    return command ? vgpuctl_run(command, argc - 1, argv + 1) : refuse_command(argv[1]);
}

int
main(int argc, char **argv)
{
    const int early = count_early_options(argc, argv);

    vg_file_reserve_standard();
    setlocale(LC_CTYPE, "");
    argp_err_exit_status = VG_EXIT_USAGE;
    raise_file_limit();
    signal(SIGBUS, on_bus_error);
    if (argc < 2 + early) {
        print_usage(stderr);
        return VG_EXIT_USAGE;
    }
    g_autofree char **words = put_command_first(argc, argv, early);
    main_rewrite_help(argc, words);
    return run_words(argc, words);
}
