/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses the command line of vgpud.
 */
#include "config.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "collectors/replay.h"
#include "daemon/daemon.h"
#include "daemon/journald.h"
#include "host/cpu-list.h"
#include "host/gpu-cards.h"
#include "host/host-facts.h"

enum {
    KEY_CHECK = 0x100,
    KEY_DUMP,
    KEY_REPLAY,
    KEY_SPEED,
    KEY_VM_MAP,
    KEY_UNTIL_END,
    KEY_SOCKET,
    KEY_STATE_DIR,
    KEY_HOST,
    KEY_LOG_LEVEL
};

struct args {
    struct vg_daemon_options daemon;
    bool check;
    bool dump;
    bool has_speed;
};

static const struct argp_option options[] = {
    {"config", 'c', "FILE", 0,
     "configuration (default: " VG_CONFIG_PATH "); its conf.d directory is read too", 1},
    {"check-config", KEY_CHECK, NULL, 0, "check the configuration and exit", 1},
    {"dump-config", KEY_DUMP, NULL, 0, "print every key with its value and exit", 1},
    {"socket", KEY_SOCKET, "PATH", 0, "listen on this socket, overriding the configuration", 2},
    {"state-dir", KEY_STATE_DIR, "DIR", 0, "directory for the databases", 2},
    {"host", KEY_HOST, "NAME", 0, "name of this host", 2},
    {"log-level", KEY_LOG_LEVEL, "LEVEL", 0, "err, warn, notice, info or debug", 2},
    {"replay", KEY_REPLAY, "TRACE", 0, "read this recording instead of the live host", 3},
    {"speed", KEY_SPEED, "X", 0, "replay speed: X times real time (default: 1), or `max`", 3},
    {"vm-map", KEY_VM_MAP, "FILE", 0, "names of the recorded VMs: lines of `pid name [uuid]`", 3},
    {"until-end", KEY_UNTIL_END, NULL, 0, "exit when the recording is read and stored", 3},
    {0},
};

static double
parse_speed(const char *text, struct argp_state *state)
{
    char *end;

    if (strcmp(text, "max") == 0)
        return 0;
    double speed = g_ascii_strtod(text, &end);
    if (end == text || *end || !(speed >= VG_REPLAY_SPEED_MIN && speed <= VG_REPLAY_SPEED_MAX))
        argp_error(state, "--speed expects a number from %g to %g, or `max`, not '%s'",
                   VG_REPLAY_SPEED_MIN, VG_REPLAY_SPEED_MAX, text);
    return speed;
}

static void
check_level(const char *text, struct argp_state *state)
{
    for (int i = 0; vg_log_level_names[i]; i++) {
        if (strcmp(vg_log_level_names[i], text) == 0)
            return;
    }
    argp_error(state, "--log-level expects err, warn, notice, info or debug, not '%s'", text);
}

static void
check_together(const struct args *args, struct argp_state *state)
{
    if (args->daemon.replay)
        return;
    if (args->has_speed || args->daemon.vm_map || args->daemon.until_end)
        argp_error(state, "--speed, --vm-map and --until-end need --replay");
}

static error_t
vgpud_parse(int key, char *arg, struct argp_state *state)
{
    struct args *args = state->input;

    switch (key) {
    case 'c':
        args->daemon.config_path = arg;
        break;
    case KEY_CHECK:
        args->check = true;
        break;
    case KEY_DUMP:
        args->dump = true;
        break;
    case KEY_REPLAY:
        args->daemon.replay = arg;
        break;
    case KEY_SPEED:
        args->daemon.speed = parse_speed(arg, state);
        args->has_speed = true;
        break;
    case KEY_VM_MAP:
        args->daemon.vm_map = arg;
        break;
    case KEY_UNTIL_END:
        args->daemon.until_end = true;
        break;
    case KEY_SOCKET:
        if (!*arg)
            argp_error(state, "--socket expects a path");
        args->daemon.socket = arg;
        break;
    case KEY_STATE_DIR:
        if (!*arg)
            argp_error(state, "--state-dir expects a directory");
        args->daemon.directory = arg;
        break;
    case KEY_HOST:
        if (!*arg || strlen(arg) > 255 || !g_utf8_validate(arg, -1, NULL))
            argp_error(state, "a host name has 1 to 255 bytes of UTF-8");
        args->daemon.host_name = arg;
        break;
    case KEY_LOG_LEVEL:
        check_level(arg, state);
        args->daemon.log_level = arg;
        break;
    case ARGP_KEY_ARG:
        argp_error(state, "unexpected argument '%s'", arg);
        break;
    case ARGP_KEY_END:
        check_together(args, state);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static int
vgpud_fail(const char *message)
{
    g_autofree char *text = g_utf8_make_valid(message, -1);

    /* Quoted bytes from a file must not reach the terminal. */
    for (char *c = text; *c; c++) {
        if (g_ascii_iscntrl(*c))
            *c = '?';
    }
    fprintf(stderr, "vgpud: %s\n", text);
    return EXIT_FAILURE;
}

static int
fail_config(const GError *error)
{
    g_auto(GStrv) mistakes = g_strsplit(error->message, "\n", -1);

    for (size_t i = 0; mistakes[i]; i++)
        vgpud_fail(mistakes[i]);
    return EXIT_FAILURE;
}

static int
print(const char *text)
{
    if (fputs(text, stdout) < 0 || fflush(stdout) != 0) {
        fprintf(stderr, "vgpud: cannot write: %s\n", strerror(errno));
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}

/* Raises the limit of open files: each stream of a recording, each vCPU thread and each connection
 * needs a file descriptor. */
static void
raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

const char *argp_program_version = "vgpud " PACKAGE_VERSION;

int
main(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = vgpud_parse,
        .doc = "Measures which VMs compete for the CPUs and GPUs of this KVM host, and serves the "
               "figures on a unix socket.\vSee vgpud(8) and vgpud.conf(5). vgpuctl(1) shows the "
               "figures.",
    };
    struct args args = {.daemon = {.speed = 1}};
    g_autoptr(GError) error = NULL;

    vg_file_reserve_standard();
    /* Register the error domain before other threads exist. */
    vg_error_quark();
    argp_err_exit_status = 2;
    argp_parse(&argp, argc, argv, 0, NULL, &args);
    struct vg_daemon_config *config = vg_daemon_read_config(&args.daemon, &error);
    if (!config)
        return fail_config(error);
    if (args.check || args.dump) {
        g_autofree char *text = vg_daemon_config_dump(config);
        vg_daemon_config_free(config);
        return print(args.dump ? text : "the configuration is valid\n");
    }
    vg_gpu_cards_set(config->gpu_cards);
    vg_cpu_list_set_host(config->cpus);
    raise_file_limit();
    umask(0027);
    vg_journald_attach();
    if (vg_daemon_run(&args.daemon, config, &error) < 0)
        return vgpud_fail(error->message);
    return EXIT_SUCCESS;
}
