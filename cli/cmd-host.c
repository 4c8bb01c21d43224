/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl host list|show|cpus|history|drain|undrain: shows hosts and empties them.
 */
#include "config.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <langinfo.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/alert-rows.h"
#include "cli/cli.h"
#include "cli/host-drain.h"
#include "cli/host-history.h"
#include "cli/host-list.h"
#include "cli/host-load.h"
#include "cli/online-args.h"

enum {
    CMD_HOST_STEP = 0x100,
    CMD_HOST_SOURCE,
    CMD_HOST_ALL,
    CMD_HOST_DRY_RUN,
    CMD_HOST_WAIT,
    CMD_HOST_TIMEOUT
};

/* one week */
#define DRAIN_MAX_S 604800

struct cmd_host_args {
    struct vg_online_args online;
    struct vg_host_history_args history;
    bool all; /* list: include all hosts that vgpud knows */
    struct vg_host_drain_args drain;
};

static const struct vg_column cmd_host_columns[] = {
    {"HOST", "name", VG_CELL_TEXT, false},
    {"UUID", "uuid", VG_CELL_TEXT, true},
    {"CPUS", "cpus", VG_CELL_COUNT, false},
    {"MEMORY GiB", "memory_gib", VG_CELL_TEXT, false},
    {"FREE GiB", "free_gib", VG_CELL_TEXT, false},
    {"GPUS", "n_gpus", VG_CELL_COUNT, false},
    {"VMS", "vms", VG_CELL_COUNT, false},
    {"MEASURED BY", "measurement.source", VG_CELL_TEXT, false},
    {"CONFIDENCE %", "measurement.confidence", VG_CELL_PERCENT, false},
    {"WINDOWS", "measurement.windows", VG_CELL_COUNT, false},
    {"READY", "ready", VG_CELL_TEXT, false},
    {"CPU MODEL", "cpu_model", VG_CELL_TEXT, true},
    {"HYPERVISOR", "hypervisor", VG_CELL_TEXT, true},
    {"LIBVIRT", "libvirt_uri", VG_CELL_TEXT, true},
    {"VGPUD", "daemon.version", VG_CELL_TEXT, true},
};

static const struct vg_column use_columns[] = {
    {"VMS", "vms", VG_CELL_SHARE, false},
    {"HOST", "own", VG_CELL_SHARE, false},
    {"IDLE", "idle", VG_CELL_SHARE, false},
    {"STOLEN", "steal", VG_CELL_SHARE, false},
    {"RUNNABLE", "runnable", VG_CELL_COUNT, false},
    {"LOAD 1min", "load.1min", VG_CELL_SHARE, false},
    {"5min", "load.5min", VG_CELL_SHARE, false},
    {"15min", "load.15min", VG_CELL_SHARE, false},
};

static const struct vg_column pressure_columns[] = {
    {"RESOURCE", "resource", VG_CELL_TEXT, false},
    {"SOME WAITED %", "some", VG_CELL_PERCENT, false},
    {"ALL WAITED %", "full", VG_CELL_PERCENT, false},
};

static const struct vg_column cpu_columns[] = {
    {"CPU", "cpu", VG_CELL_COUNT, false},           {"NODE", "node", VG_CELL_COUNT, false},
    {"VMS %", "vms", VG_CELL_PERCENT, false},       {"HOST %", "host", VG_CELL_PERCENT, false},
    {"IDLE %", "idle", VG_CELL_PERCENT, false},     {"STOLEN %", "steal", VG_CELL_PERCENT, false},
    {"VMS WAIT", "vm_waits", VG_CELL_SHARE, false}, {"ALL WAIT", "waits", VG_CELL_SHARE, true},
    {"RAN HERE %", "ran", VG_CELL_TEXT, false},     {"PINNED HERE", "pinned", VG_CELL_TEXT, false},
};

static const struct vg_column cmd_host_node_columns[] = {
    {"NODE", "node", VG_CELL_COUNT, false},         {"CPUS", "cpus", VG_CELL_COUNT, false},
    {"BUSY", "busy", VG_CELL_SHARE, false},         {"VMS", "vms", VG_CELL_SHARE, false},
    {"IDLE", "idle", VG_CELL_SHARE, false},         {"STOLEN", "steal", VG_CELL_SHARE, false},
    {"VMS WAIT", "vm_waits", VG_CELL_SHARE, false}, {"ALL WAIT", "waits", VG_CELL_SHARE, true},
};

static const struct vg_column cmd_host_program_columns[] = {
    {"PROGRAM", "comm", VG_CELL_TEXT, false},    {"CORES", "cores", VG_CELL_SHARE, false},
    {"SECONDS", "ns", VG_CELL_SECONDS, false},   {"AT MOST", "at_most", VG_CELL_SECONDS, false},
    {"PROCESSES", "pids", VG_CELL_COUNT, false}, {"CONTROL GROUP", "cgroup", VG_CELL_TEXT, false},
};

static const struct vg_column part_columns[] = {
    {"PART", "name", VG_CELL_TEXT, false},
    {"STATE", "state", VG_CELL_TEXT, false},
    {"REASON", "reason", VG_CELL_TEXT, false},
};

static const struct vg_column measure_columns[] = {
    {"MEASURE", "name", VG_CELL_TEXT, false},
    {"FROM", "source", VG_CELL_TEXT, false},
    {"CONFIDENCE %", "confidence", VG_CELL_PERCENT, false},
    {"REASON", "reason", VG_CELL_TEXT, false},
};

static const struct vg_column cmd_host_gpu_columns[] = {
    {"GPU", "device", VG_CELL_TEXT, false},     {"PRODUCT", "product", VG_CELL_TEXT, false},
    {"DRIVER", "driver", VG_CELL_TEXT, false},  {"VGPU TYPE", "type", VG_CELL_TEXT, false},
    {"NAME", "type_name", VG_CELL_TEXT, false}, {"AVAILABLE", "available", VG_CELL_COUNT, false},
    {"IN USE", "in_use", VG_CELL_COUNT, false},
};

static void
add_gib(json_object *row, const char *name, json_object *bytes)
{
    int64_t value = json_object_get_int64(bytes);
    g_autofree char *text =
        value > 0 ? g_strdup_printf("%.1f", (double)value / (1024.0 * 1024 * 1024)) : NULL;

    vg_json_add_string(row, name, text);
}

/* Adds members for the tables only. */
static void
add_host_members(json_object *row)
{
    json_object *parts = vg_output_member(row, "parts");
    bool ready = true;

    for (size_t i = 0; i < vg_output_length(parts); i++)
        ready = ready && json_object_get_boolean(
                             vg_output_member(json_object_array_get_idx(parts, i), "ready"));
    vg_json_add_string(row, "ready", ready ? "yes" : "no");
    vg_json_add_int64(row, "n_gpus", (int64_t)vg_output_length(vg_output_member(row, "gpus")));
    add_gib(row, "memory_gib", vg_output_member(row, "memory_bytes"));
    add_gib(row, "free_gib", vg_output_member(row, "memory_free_bytes"));
}

static int64_t
count_mdevs(json_object *gpu, const char *type)
{
    json_object *mdevs = vg_output_member(gpu, "mdevs");
    int64_t n = 0;

    for (size_t i = 0; i < vg_output_length(mdevs); i++) {
        const char *other =
            json_object_get_string(vg_output_member(json_object_array_get_idx(mdevs, i), "type"));
        n += g_strcmp0(type, other) == 0;
    }
    return n;
}

/* Creates a row per GPU and vGPU type. */
static json_object *
gpu_rows(json_object *gpus)
{
    json_object *rows = json_object_new_array();

    for (size_t i = 0; i < vg_output_length(gpus); i++) {
        json_object *gpu = json_object_array_get_idx(gpus, i);
        json_object *types = vg_output_member(gpu, "mdev_types");
        size_t n = vg_output_length(types);
        for (size_t k = 0; k < MAX(n, 1); k++) {
            json_object *row = json_object_new_object();
            static const char *const members[] = {"device", "product", "driver"};
            for (size_t m = 0; m < G_N_ELEMENTS(members); m++)
                vg_json_add(row, members[m], json_object_get(vg_output_member(gpu, members[m])));
            if (n > 0) {
                json_object *type = json_object_array_get_idx(types, k);
                const char *name = json_object_get_string(vg_output_member(type, "type"));
                vg_json_add_string(row, "type", name);
                vg_json_add(row, "type_name", json_object_get(vg_output_member(type, "name")));
                vg_json_add(row, "available", json_object_get(vg_output_member(type, "available")));
                vg_json_add_int64(row, "in_use", count_mdevs(gpu, name));
            }
            vg_json_append(rows, row);
        }
    }
    return rows;
}

/* Creates a row per measure if there is a window. */
static json_object *
measure_rows(json_object *host)
{
    json_object *rows = json_object_new_array();
    json_object *measurement = vg_output_member(host, "measurement");
    json_object *measures = vg_output_member(measurement, "measures");

    if (!vg_output_member(measurement, "source") ||
        !json_object_is_type(measures, json_type_object))
        return rows;
    json_object_object_foreach(measures, name, measure)
    {
        static const char *const members[] = {"source", "confidence", "reason"};
        json_object *row = json_object_new_object();
        vg_json_add_string(row, "name", name);
        for (size_t m = 0; m < G_N_ELEMENTS(members); m++)
            vg_json_add(row, members[m], json_object_get(vg_output_member(measure, members[m])));
        vg_json_append(rows, row);
    }
    return rows;
}

static int64_t
cmd_host_number(json_object *object, const char *member)
{
    return json_object_get_int64(vg_output_member(object, member));
}

/* programs is an object whose items are programs, measured for length_ns. */
static json_object *
cmd_host_program_rows(enum vg_output_format format, json_object *programs, int64_t length_ns)
{
    struct winsize size = {0};

    /* The width is unlimited unless the output is a terminal. */
    if (format != VG_OUTPUT_TABLE || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
        size = (struct winsize){0};
    return vg_host_program_rows(vg_output_member(programs, "items"), length_ns, size.ws_col,
                                strcmp(nl_langinfo(CODESET), "UTF-8") == 0);
}

static int
show_host(void *data, vg_client *client, GError **err)
{
    static const char *const lists[] = {"gpus", "parts", NULL};
    const struct vg_online_args *args = &((const struct cmd_host_args *)data)->online;
    g_autoptr(json_object) host = NULL;
    g_autoptr(json_object) items = json_object_new_array();
    bool list = strcmp(args->verb->name, "list") == 0;

    if (((const struct cmd_host_args *)data)->all)
        return vg_host_list_all(args, client, err);
    if (vg_client_get(client, "/v1/host", lists, &host, err) < 0)
        return -1;
    const char *name = json_object_get_string(vg_output_member(host, "name"));
    if (args->object && g_strcmp0(args->object, name) != 0)
        return vg_error(err, VG_E_NOT_FOUND, "this vgpud monitors host '%s', not '%s'", name,
                        args->object);
    vg_json_append(items, json_object_get(host));
    g_autoptr(json_object) rows = vg_online_rows(items);
    add_host_members(json_object_array_get_idx(rows, 0));
    g_autoptr(json_object) measures = measure_rows(host);
    g_autoptr(json_object) uses = vg_host_use_rows(host);
    g_autoptr(json_object) pressures = vg_host_pressure_rows(host);
    const char *no_pressure =
        json_object_get_string(vg_output_member(host, "measurement.host.pressure.reason"));
    json_object *programs = vg_output_member(host, "measurement.programs");
    json_object *newest = vg_output_member(programs, "newest");
    const int64_t newest_ns =
        cmd_host_number(newest, "end_ns") - cmd_host_number(newest, "begin_ns");
    g_autofree char *now_title =
        g_strdup_printf("CPU time of the host's programs, in the last %" G_GINT64_FORMAT " s",
                        (newest_ns + VG_NS_PER_S / 2) / VG_NS_PER_S);
    g_autoptr(json_object) now = cmd_host_program_rows(args->format, newest, newest_ns);
    g_autoptr(json_object) since_start =
        cmd_host_program_rows(args->format, programs, cmd_host_number(programs, "length_ns"));
    g_autoptr(json_object) gpus = gpu_rows(vg_output_member(host, "gpus"));
    g_autoptr(json_object) alerts = vg_alert_rows(vg_output_member(host, "alerts"));
    const struct vg_table tables[] = {
        {NULL, rows, cmd_host_columns, G_N_ELEMENTS(cmd_host_columns), NULL},
        {"Active alerts", alerts, vg_alert_columns, VG_ALERT_COLUMNS, NULL},
        {"CPU time of the newest window, in cores", uses, use_columns, G_N_ELEMENTS(use_columns),
         NULL},
        {"Pressure in the newest window", pressures, pressure_columns,
         G_N_ELEMENTS(pressure_columns), no_pressure},
        {now_title, now, cmd_host_program_columns, G_N_ELEMENTS(cmd_host_program_columns), NULL},
        {"CPU time of the host's programs since vgpud started", since_start,
         cmd_host_program_columns, G_N_ELEMENTS(cmd_host_program_columns), NULL},
        {"Parts of vgpud", vg_output_member(host, "parts"), part_columns,
         G_N_ELEMENTS(part_columns), NULL},
        {"Measurements in the newest window", measures, measure_columns,
         G_N_ELEMENTS(measure_columns), NULL},
        {"GPUs", gpus, cmd_host_gpu_columns, G_N_ELEMENTS(cmd_host_gpu_columns), NULL},
    };
    return vg_output_print(args->format, list ? items : host, tables,
                           list ? 1 : G_N_ELEMENTS(tables), err);
}

static const char *
title_of_cpus(json_object *cpus)
{
    const char *places = json_object_get_string(vg_output_member(cpus, "places"));

    if (!places)
        return "CPUs in the newest window; it is unknown where vCPUs ran";
    return strcmp(places, "counted") == 0
               ? "CPUs, in per cent of the newest window; waits in cores"
               : "CPUs, in per cent of the newest window; a vCPU counts for the CPU it was last "
                 "seen on";
}

static int
show_cpus(void *data, vg_client *client, GError **err)
{
    static const char *const lists[] = {"items", NULL};
    const struct vg_online_args *args = &((const struct cmd_host_args *)data)->online;
    g_autoptr(json_object) cpus = NULL;
    struct winsize size = {0};

    if (vg_client_get(client, "/v1/host/cpus", lists, &cpus, err) < 0)
        return -1;
    /* The width is unlimited unless the output is a terminal. */
    if (args->format != VG_OUTPUT_TABLE || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
        size = (struct winsize){0};
    g_autoptr(json_object) rows =
        vg_host_cpu_rows(cpus, size.ws_col, strcmp(nl_langinfo(CODESET), "UTF-8") == 0);
    g_autoptr(json_object) nodes = vg_host_node_rows(cpus);
    const struct vg_table tables[] = {
        {vg_output_length(rows) > 0 ? title_of_cpus(cpus) : NULL, rows, cpu_columns,
         G_N_ELEMENTS(cpu_columns), "no source measures this host's CPUs individually"},
        {"NUMA nodes, in cores", nodes, cmd_host_node_columns, G_N_ELEMENTS(cmd_host_node_columns),
         NULL},
    };
    return vg_output_print(args->format, cpus, tables, G_N_ELEMENTS(tables), err);
}

static int
cmd_host_show_history(void *data, vg_client *client, GError **err)
{
    const struct cmd_host_args *args = data;

    return vg_host_history_show(&args->online, &args->history, client, err);
}

static int
cmd_host_drain(void *data, vg_client *client, GError **err)
{
    const struct cmd_host_args *args = data;

    return vg_host_drain(&args->online, &args->drain, client, err);
}

static int
cmd_host_undrain(void *data, vg_client *client, GError **err)
{
    return vg_host_undrain(&((const struct cmd_host_args *)data)->online, client, err);
}

static void
cmd_host_check_drain(const struct cmd_host_args *args, struct argp_state *state)
{
    const struct vg_host_drain_args *drain = &args->drain;
    const bool is_drain = strcmp(args->online.verb->name, "drain") == 0;

    if (!is_drain && (drain->dry_run || drain->wait || drain->timeout_s > 0))
        argp_error(state, "--dry-run, --wait and --timeout are valid only with `host drain`");
    if (drain->dry_run && drain->wait)
        argp_error(state, "--wait cannot be combined with --dry-run, which starts nothing");
    if (drain->timeout_s > 0 && !drain->wait)
        argp_error(state, "--timeout needs --wait");
}

static error_t
cmd_host_parse(int key, char *arg, struct argp_state *state)
{
    struct cmd_host_args *args = state->input;
    struct vg_host_history_args *history = &args->history;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->online;
        break;
    case CMD_HOST_STEP:
        history->step = arg;
        break;
    case CMD_HOST_SOURCE:
        history->source = arg;
        break;
    case CMD_HOST_DRY_RUN:
        args->drain.dry_run = true;
        break;
    case CMD_HOST_WAIT:
        args->drain.wait = true;
        break;
    case CMD_HOST_TIMEOUT:
        if (!g_ascii_string_to_signed(arg, 10, 1, DRAIN_MAX_S, &args->drain.timeout_s, NULL))
            vg_cli_usage(state, "--timeout must be from 1 to %d seconds, not '%s'", DRAIN_MAX_S,
                         arg);
        break;
    case CMD_HOST_ALL:
        args->all = true;
        break;
    case ARGP_KEY_END:
        cmd_host_check_drain(args, state);
        if (args->all && strcmp(args->online.verb->name, "list") != 0)
            argp_error(state, "--all is valid only with `host list`");
        if (strcmp(args->online.verb->name, "history") != 0 &&
            (history->step || history->source || vg_when_is_asked(&history->when)))
            argp_error(state, "--since, --until, --step and --source are valid only with `host "
                              "history`");
        vg_when_check(&history->when, state);
        break;
    default:
        return vg_when_take(&history->when, key, arg);
    }
    return 0;
}

#define CMD_HOST_HINT "specify a host; `vgpuctl host list --all` shows all hosts"

int
vg_cmd_host(int argc, char **argv)
{
    static const struct vg_online_verb verbs[] = {
        {"list", VG_OBJECT_NONE, NULL, show_host},
        {"show", VG_OBJECT_OPTIONAL, NULL, show_host},
        {"cpus", VG_OBJECT_NONE, NULL, show_cpus},
        {"history", VG_OBJECT_NONE, NULL, cmd_host_show_history},
        {"drain", VG_OBJECT_REQUIRED, CMD_HOST_HINT, cmd_host_drain},
        {"undrain", VG_OBJECT_REQUIRED, CMD_HOST_HINT, cmd_host_undrain},
    };
    static const struct argp_option options[] = {
        {"all", CMD_HOST_ALL, NULL, 0, "list: include all known hosts of the cluster and of peers",
         1},
        {"since", VG_WHEN_SINCE, "TIME", 0,
         "history: start of the period (default: -24h); " VG_WHEN_HELP, 1},
        {"until", VG_WHEN_UNTIL, "TIME", 0, "history: end of the period (default: now)", 1},
        {"step", CMD_HOST_STEP, "STEP", 0, "history: length of a step, such as 10min, 1h or 1d", 1},
        {"source", CMD_HOST_SOURCE, "NAME", 0,
         "history: the source of the figures (default: the "
         "newest)",
         1},
        {"dry-run", CMD_HOST_DRY_RUN, NULL, 0, "drain: only show where the VMs would go", 2},
        {"wait", CMD_HOST_WAIT, NULL, 0, "drain: wait until no VM is being moved any more", 2},
        {"timeout", CMD_HOST_TIMEOUT, "SECONDS", 0, "drain --wait: maximum time to wait", 2},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = cmd_host_parse,
        .args_doc = "list [--all]\nshow [HOST]\ncpus\nhistory\ndrain HOST\nundrain HOST",
        .doc = "Shows the host that vgpud monitors: its size, the use of its CPUs now and in the "
               "past, its GPUs, and the state of vgpud.",
        .children = vg_online_children,
    };
    struct cmd_host_args args = {
        .online = {.verbs = verbs, .n_verbs = G_N_ELEMENTS(verbs), .can_watch = true}};

    argp_parse(&argp, argc, argv, 0, NULL, &args);
    return vg_online_run(&args.online, &args);
}
