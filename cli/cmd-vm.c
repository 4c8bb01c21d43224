/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl vm list|show|history, and vgpuctl top: show VMs.
 */
#include "config.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <langinfo.h>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "cli/cli.h"
#include "cli/figure-columns.h"
#include "cli/host-load.h"
#include "cli/move-bars.h"
#include "cli/online-args.h"
#include "cli/past.h"
#include "cli/top.h"
#include "cli/vm-list.h"
#include "cli/vm-movable.h"
#include "cli/vm-proxy.h"
#include "cli/vm-set.h"
#include "model/score.h"

enum {
    KEY_SORT = 0x600,
    KEY_CLASS,
    KEY_STEP,
    KEY_SOURCE,
    KEY_PLAIN,
    KEY_PROJECT,
    KEY_NAME,
    KEY_LIMIT,
    KEY_ALL,
    KEY_HOST
};

#define LIMIT_MAX 10000

/* The maximum number of VMs in `top --all`, which fit on most terminals. */
#define TOP_ALL 20

struct vm_args {
    struct vg_online_args online;
    const char *sort;
    int64_t limit; /* 0 for no limit */
    const char *vm_class;
    const char *project;
    const char *name;
    struct vg_when_args when;
    const char *step;
    const char *source;
    bool plain;
    bool all;         /* include the VMs of all hosts that vgpud knows */
    const char *host; /* of these, only this host's */
};

static const struct vg_column list_columns[] = {
    {"VM", "name", VG_CELL_NAME, false},
    {"UUID", "uuid", VG_CELL_TEXT, true},
    {"INSTANCE", "openstack.name", VG_CELL_TEXT, true},
    {"PROJECT", "openstack.project", VG_CELL_TEXT, true},
    {"FLAVOR", "openstack.flavor", VG_CELL_TEXT, true},
    {"PID", "pid", VG_CELL_COUNT, true},
    {"STATE", "state", VG_CELL_TEXT, false},
    {"CLASS", "class", VG_CELL_TEXT, false},
    {"CPU %", "newest.cpu_intensity", VG_CELL_PERCENT, false},
    {"GPU %", "newest.gpu_intensity", VG_CELL_PERCENT, false},
    {"RUN", "newest.rates.run_share", VG_CELL_SHARE, false},
    {"LOST", "newest.lost_share", VG_CELL_SHARE, false},
    {"PRE/s", "newest.rates.preemptions_per_s", VG_CELL_SHARE, false},
    {"LOST MOST TO", "newest.culprit", VG_CELL_NAME, false},
    {"MEAN CPU %", "cpu_intensity", VG_CELL_PERCENT, true},
    {"MEAN GPU %", "gpu_intensity", VG_CELL_PERCENT, true},
    {"MEAN RUN", "rates.run_share", VG_CELL_SHARE, true},
    {"MEAN LOST", "lost_share", VG_CELL_SHARE, true},
    {"MEAN PRE/s", "rates.preemptions_per_s", VG_CELL_SHARE, true},
    {"ON CPUS", "cpus", VG_CELL_LIST, true},
    {"PROBLEM", "problem", VG_CELL_TEXT, true},
};

static const struct vg_column figure_columns[] = {{"VCPU", "vcpu", VG_CELL_COUNT, false},
                                                  {"TID", "tid", VG_CELL_COUNT, false},
                                                  VG_FIGURE_COLUMNS};

static const struct vg_column loss_columns[] = {
    {"LOST CPU TO", "aggressor", VG_CELL_NAME, false},
    {"SECONDS", "ns", VG_CELL_SECONDS, false},
    {"PREEMPTIONS", "count", VG_CELL_COUNT, false},
    VG_LOSS_ROLE_COLUMNS,
};

static const struct vg_column process_columns[] = {
    {"PROCESS", "comm", VG_CELL_TEXT, false},
    {"PID", "pid", VG_CELL_TEXT, false},
    {"SECONDS", "ns", VG_CELL_SECONDS, false},
    {"AT MOST", "at_most", VG_CELL_SECONDS, false},
    {"PREEMPTIONS", "count", VG_CELL_COUNT, false},
    {"CONTROL GROUP", "cgroup", VG_CELL_TEXT, false},
};

static const struct vg_column cmd_vm_gpu_columns[] = {{"GPU", "device", VG_CELL_TEXT, false},
                                                      {"ENGINE", "engine", VG_CELL_TEXT, false},
                                                      VG_GPU_COLUMNS};

static const struct vg_column cmd_vm_device_columns[] = {
    {"DEVICE", "kind", VG_CELL_TEXT, false},    {"ADDRESS", "address", VG_CELL_TEXT, false},
    {"TYPE", "mdev_type", VG_CELL_TEXT, false}, {"OF", "parent", VG_CELL_TEXT, false},
    {"ALIAS", "alias", VG_CELL_TEXT, false},
};

static const struct vg_column openstack_columns[] = {
    {"INSTANCE", "name", VG_CELL_TEXT, false},   {"FLAVOR", "flavor", VG_CELL_TEXT, false},
    {"PROJECT", "project", VG_CELL_TEXT, false}, {"PROJECT ID", "project_id", VG_CELL_TEXT, true},
    {"USER", "user", VG_CELL_TEXT, false},       {"USER ID", "user_id", VG_CELL_TEXT, true},
};

static const struct vg_column history_columns[] = {
    {"END", "end", VG_CELL_TEXT, false},
    {"CPU %", "cpu_intensity", VG_CELL_PERCENT, false},
    {"RUN s", "run_ns", VG_CELL_SECONDS, false},
    {"GUEST s", "guest_ns", VG_CELL_SECONDS, true},
    {"PREEMPT s", "preempt_ns", VG_CELL_SECONDS, false},
    {"WAKE s", "wake_wait_ns", VG_CELL_SECONDS, false},
    {"PREEMPTIONS", "preemptions", VG_CELL_COUNT, false},
    {"LOST MOST TO", "culprit", VG_CELL_NAME, false},
    {"OBSERVED s", "observed_ns", VG_CELL_SECONDS, true},
    {"LOST EVENTS", "lost_events", VG_CELL_COUNT, true},
};

/* Unmeasured figures must not be shown as 0 %. */
static void
leave_out_unknown(json_object *row)
{
    if (json_object_get_int64(vg_output_member(row, "observed_ns")) == 0)
        vg_json_add(row, "cpu_intensity", NULL);
    if (!json_object_get_boolean(vg_output_member(row, "gpu_known")))
        vg_json_add(row, "gpu_intensity", NULL);
}

/* Adds the first entry of lost_to, which is the largest. */
static void
add_culprit(json_object *row)
{
    json_object *lost_to = vg_output_member(row, "lost_to");
    json_object *first =
        vg_output_length(lost_to) > 0 ? json_object_array_get_idx(lost_to, 0) : NULL;

    vg_json_add_string(row, "culprit",
                       first ? json_object_get_string(vg_output_member(first, "aggressor")) : NULL);
    if (first && vg_output_member(first, "aggressor_label"))
        vg_json_add(row, "culprit_label",
                    json_object_get(vg_output_member(first, "aggressor_label")));
}

static void
add_lost_share(json_object *row)
{
    json_object *preempt = vg_output_member(row, "rates.preempt_share");
    json_object *wake = vg_output_member(row, "rates.wake_wait_share");

    vg_json_add_double(row, "lost_share",
                       json_object_get_double(preempt) + json_object_get_double(wake));
}

static void
add_list_members(json_object *rows)
{
    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        json_object *row = json_object_array_get_idx(rows, i);
        json_object *newest = vg_output_member(row, "newest");
        add_lost_share(row);
        leave_out_unknown(row);
        if (!vg_output_member(row, "cpu_intensity"))
            vg_json_add(row, "class", NULL);
        if (json_object_is_type(newest, json_type_object)) {
            add_lost_share(newest);
            add_culprit(newest);
            leave_out_unknown(newest);
        }
    }
}

static int
cmd_vm_show_list(void *data, vg_client *client, GError **err)
{
    const struct vm_args *args = data;
    g_autoptr(GString) path = g_string_new("/v1/vms?sort=");
    g_autoptr(json_object) items = NULL;

    if (args->all) {
        const struct vg_vm_list_args wanted = {args->host, args->vm_class, args->limit};
        return vg_vm_list_all(&args->online, &wanted, client, err);
    }
    if (vg_when_is_asked(&args->when))
        return vg_past_show_vms(&args->online, &args->when, args->sort, args->limit, client, err);
    g_string_append(path, args->sort ? args->sort : "name");
    if (args->vm_class)
        g_string_append_printf(path, "&class=%s", args->vm_class);
    vg_online_add_parameter(path, "project", args->project);
    vg_online_add_parameter(path, "name", args->name);
    if (args->limit > 0)
        g_string_append_printf(path, "&limit=%" G_GINT64_FORMAT, args->limit);
    if (vg_client_list_some(client, path->str, args->limit > 0 ? (size_t)args->limit : SIZE_MAX,
                            &items, err) < 0)
        return -1;
    g_autoptr(json_object) rows = vg_online_rows(items);
    add_list_members(rows);
    const struct vg_table table = {NULL, rows, list_columns, G_N_ELEMENTS(list_columns),
                                   args->project || args->name ? "no VM matches"
                                   : args->vm_class            ? "no VM has this class"
                                                               : "vgpud has found no VM yet"};
    return vg_output_print(args->online.format, items, &table, 1, err);
}

static json_object *
array_of(json_object *object)
{
    json_object *array = json_object_new_array();

    vg_json_append(array, json_object_get(object));
    return array;
}

/* Adds whether the VM can be moved to the document, and returns the text to print after the tables.
 * The caller frees it. Does nothing if the output is repeated, as this queries the guest. */
static char *
show_movable(const struct vm_args *args, vg_client *client, json_object *vm)
{
    const enum vg_output_format format = args->online.format;
    const char *uuid = json_object_get_string(vg_output_member(vm, "uuid"));

    if (args->online.watch_s > 0 || format == VG_OUTPUT_CSV)
        return NULL;
    json_object *movable = vg_vm_movable_ask(client, args->online.object, uuid);
    vg_json_add(vm, "movable", movable);
    return movable ? vg_vm_movable_text(movable, vg_move_bars_width(stdout)) : NULL;
}

/* Does the same for the guest's proxy. */
static char *
show_proxy(const struct vm_args *args, vg_client *client, json_object *vm)
{
    if (args->online.watch_s > 0 || args->online.format == VG_OUTPUT_CSV)
        return NULL;
    json_object *guest =
        vg_vm_proxy_ask(client, json_object_get_string(vg_output_member(vm, "name")),
                        json_object_get_string(vg_output_member(vm, "uuid")));
    if (!guest)
        return NULL;
    vg_json_add(vm, "proxy", guest);
    g_autofree char *text = vg_vm_proxy_text(guest);
    GString *to = g_string_new(NULL);
    vg_printable_append_line(to, "proxy: the guest %s", text);
    return g_string_free(to, FALSE);
}

/* Describes the access of the guest's programs to the host's GPU through virtio-gpu, or returns
 * NULL if there is none. The caller frees the text. */
static char *
cmd_vm_virtio_gpu(const struct vm_args *args, json_object *vm)
{
    const char *name = json_object_get_string(vg_output_member(vm, "domain.virtio_gpu"));
    const int64_t bytes = json_object_get_int64(vg_output_member(vm, "domain.hostmem_bytes"));
    static const char *const words[][2] = {
        {"virgl", "OpenGL (virgl)"},
        {"venus", "Vulkan (Venus)"},
        {"native-context", "the host's own driver (native contexts)"},
    };

    if (!name || args->online.watch_s > 0)
        return NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(words); i++)
        if (strcmp(name, words[i][0]) == 0)
            name = words[i][1];
    if (bytes <= 0)
        return g_strdup_printf("virtio-gpu: %s\n", name);
    return g_strdup_printf("virtio-gpu: %s, the guest can map %" G_GINT64_FORMAT " MiB of host "
                           "memory (hostmem)\n",
                           name, bytes >> 20);
}

/* Lists the processes behind host:user. */
static json_object *
process_rows(json_object *vm, enum vg_output_format format)
{
    struct winsize size = {0};

    if (format != VG_OUTPUT_TABLE || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
        size = (struct winsize){0};
    return vg_host_process_rows(vg_output_member(vm, "lost_to"), size.ws_col,
                                strcmp(nl_langinfo(CODESET), "UTF-8") == 0);
}

/* Lists the vCPUs' figures, without the wait after preemptions if it cannot be separated from the
 * wait after wakeups. */
static json_object *
cmd_vm_vcpu_rows(json_object *vm)
{
    json_object *rows = vg_online_rows(vg_output_member(vm, "vcpus"));
    json_object *split = vg_output_member(vm, "waits_split");

    for (size_t i = 0; split && !json_object_get_boolean(split) && i < vg_output_length(rows);
         i++) {
        json_object *row = json_object_array_get_idx(rows, i);
        if (json_object_get_int64(vg_output_member(row, "preempt_ns")) == 0)
            vg_json_add(row, "preempt_ns", NULL);
    }
    return rows;
}

static int
show_vm(void *data, vg_client *client, GError **err)
{
    static const char *const lists[] = {"vcpus", "lost_to", "gpu", NULL};
    const struct vm_args *args = data;
    g_autofree char *path = vg_client_vm_path(args->online.object, "");
    g_autoptr(json_object) vm = NULL;

    if (vg_client_get(client, path, lists, &vm, err) < 0)
        return -1;
    g_autofree char *movable = show_movable(args, client, vm);
    g_autofree char *proxy = show_proxy(args, client, vm);
    g_autofree char *virtio_gpu = cmd_vm_virtio_gpu(args, vm);
    g_autoptr(json_object) items = array_of(vm);
    g_autoptr(json_object) rows = vg_online_rows(items);
    add_list_members(rows);
    json_object *openstack = vg_output_member(vm, "openstack");
    g_autoptr(json_object) owners = openstack ? array_of(openstack) : NULL;
    g_autoptr(json_object) processes = process_rows(vm, args->online.format);
    g_autoptr(json_object) vcpus = cmd_vm_vcpu_rows(vm);
    const struct vg_table tables[] = {
        {NULL, rows, list_columns, G_N_ELEMENTS(list_columns), NULL},
        {"In OpenStack", owners, openstack_columns, G_N_ELEMENTS(openstack_columns), NULL},
        {"vCPUs, since vgpud started", vcpus, figure_columns, G_N_ELEMENTS(figure_columns), NULL},
        {"Who took its CPU time", vg_output_member(vm, "lost_to"), loss_columns,
         G_N_ELEMENTS(loss_columns), NULL},
        {"Processes behind host:user", processes, process_columns, G_N_ELEMENTS(process_columns),
         NULL},
        {"GPUs, since vgpud started", vg_output_member(vm, "gpu"), cmd_vm_gpu_columns,
         G_N_ELEMENTS(cmd_vm_gpu_columns), NULL},
        {"Host devices", vg_output_member(vm, "domain.devices"), cmd_vm_device_columns,
         G_N_ELEMENTS(cmd_vm_device_columns), NULL},
    };
    if (vg_output_print(args->online.format, vm, tables, G_N_ELEMENTS(tables), err) < 0)
        return -1;
    const bool for_people =
        args->online.format == VG_OUTPUT_TABLE || args->online.format == VG_OUTPUT_WIDE;
    if (virtio_gpu && for_people && vg_cli_print(virtio_gpu, err) < 0)
        return -1;
    if (movable && for_people && vg_cli_print(movable, err) < 0)
        return -1;
    return proxy && for_people ? vg_cli_print(proxy, err) : 0;
}

/* Returns the end of a row, which for a finished step is the step's own end. */
static int64_t
cmd_vm_end_of_step(json_object *document, json_object *row)
{
    int64_t end_ns = json_object_get_int64(vg_output_member(row, "end_ns"));
    int64_t step_ns = json_object_get_int64(vg_output_member(document, "step_ns"));
    int64_t rest = step_ns > 0 ? end_ns % step_ns : 0;

    if (rest <= 0 ||
        end_ns - rest + step_ns > json_object_get_int64(vg_output_member(document, "until_ns")))
        return end_ns;
    return end_ns - rest + step_ns;
}

static int
show_history(void *data, vg_client *client, GError **err)
{
    static const char *const lists[] = {"items", NULL};
    const struct vm_args *args = data;
    g_autofree char *base = vg_client_vm_path(args->online.object, "/samples");
    g_autoptr(GString) path = g_string_new(base);
    g_autoptr(json_object) document = NULL;

    if (vg_when_add(path, &args->when, err) < 0)
        return -1;
    vg_online_add_parameter(path, "step", args->step);
    vg_online_add_parameter(path, "source", args->source);
    if (vg_client_get(client, path->str, lists, &document, err) < 0)
        return -1;
    json_object *left_out = vg_output_member(document, "left_out");
    for (size_t i = 0; i < vg_output_length(left_out); i++)
        vg_cli_warn("rows are missing: %s",
                    json_object_get_string(json_object_array_get_idx(left_out, i)));
    g_autoptr(json_object) rows = vg_online_rows(vg_output_member(document, "items"));
    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        json_object *row = json_object_array_get_idx(rows, i);
        char end[VG_WHEN_LEN];
        int64_t end_ns = cmd_vm_end_of_step(document, row);
        vg_json_add_string(row, "end", vg_when_format(end_ns, end));
        add_culprit(row);
    }
    char zone[VG_WHEN_LEN];
    g_autofree char *title = g_strdup_printf("Times are local: %s", vg_when_zone(zone));
    const struct vg_table table = {json_object_array_length(rows) > 0 ? title : NULL, rows,
                                   history_columns, G_N_ELEMENTS(history_columns),
                                   "nothing is stored for that time"};
    return vg_output_print(args->online.format, document, &table, 1, err);
}

static void
cmd_vm_check(const struct vm_args *args, const struct argp_state *state)
{
    const struct vg_online_verb *verb = args->online.verb;

    if (strcmp(verb->name, "list") != 0 &&
        (args->vm_class || args->project || args->name || args->sort || args->limit))
        argp_error(state, "--sort, --limit, --class, --project and --name are valid only with "
                          "`vm list`");
    if (args->host && !args->all)
        argp_error(state, "--host is valid only with `vm list --all`");
    if (args->all && (strcmp(verb->name, "list") != 0 || args->project || args->name ||
                      args->sort || vg_when_is_asked(&args->when)))
        argp_error(state,
                   "only `vm list` accepts --all, and only with --host, --class and --limit");
    if (strcmp(verb->name, "history") != 0 && (args->step || args->source))
        argp_error(state, "--step and --source are valid only with `vm history`");
    if (!vg_when_is_asked(&args->when))
        return;
    if (strcmp(verb->name, "show") == 0)
        argp_error(state, "--since and --until are valid only with `vm list` and `vm history`");
    if (args->vm_class || args->project || args->name)
        argp_error(state, "--class, --project and --name apply only to current figures; leave "
                          "out --since and --until");
    vg_when_check(&args->when, state);
}

static error_t
parse_vm(int key, char *arg, struct argp_state *state)
{
    static const char *const sorts[] = {"name", "lost", "cpu", "gpu"};
    struct vm_args *args = state->input;
    bool known = false;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->online;
        break;
    case KEY_SORT:
        for (size_t i = 0; i < G_N_ELEMENTS(sorts); i++)
            known = known || strcmp(sorts[i], arg) == 0;
        if (!known)
            vg_cli_usage(state, "--sort must be name, lost, cpu or gpu, not '%s'", arg);
        args->sort = arg;
        break;
    case KEY_LIMIT:
        if (!g_ascii_string_to_signed(arg, 10, 1, LIMIT_MAX, &args->limit, NULL))
            vg_cli_usage(state, "--limit must be a number from 1 to %d, not '%s'", LIMIT_MAX, arg);
        break;
    case KEY_CLASS:
        for (size_t i = 0; vg_vm_class_names[i]; i++)
            known = known || strcmp(vg_vm_class_names[i], arg) == 0;
        if (!known)
            vg_cli_usage(state, "--class must be idle, cpu, gpu, mixed or alternating, not '%s'",
                         arg);
        args->vm_class = arg;
        break;
    case KEY_PROJECT:
        args->project = arg;
        break;
    case KEY_NAME:
        args->name = arg;
        break;
    case KEY_ALL:
        args->all = true;
        break;
    case KEY_HOST:
        args->host = arg;
        break;
    case KEY_STEP:
        args->step = arg;
        break;
    case KEY_SOURCE:
        args->source = arg;
        break;
    case ARGP_KEY_END:
        cmd_vm_check(args, state);
        break;
    default:
        return vg_when_take(&args->when, key, arg);
    }
    return 0;
}

#define VM_HINT "name the VM: its UUID or its name; `vgpuctl vm list` shows them"

int
vg_cmd_vm(int argc, char **argv)
{
    static const struct vg_online_verb verbs[] = {
        {"list", VG_OBJECT_NONE, NULL, cmd_vm_show_list},
        {"show", VG_OBJECT_BEGINNING, VM_HINT, show_vm},
        {"history", VG_OBJECT_BEGINNING, VM_HINT, show_history},
    };
    static const struct argp_option options[] = {
        {"sort", KEY_SORT, "BY", 0,
         "list: sort by name (default), or by lost, cpu or gpu in the newest window, largest "
         "first; with --since, the default is lost",
         1},
        {"limit", KEY_LIMIT, "N", 0, "list: show only the first N VMs", 1},
        {"all", KEY_ALL, NULL, 0, "list: include the VMs of all known hosts, largest loss first",
         1},
        {"host", KEY_HOST, "HOST", 0, "list --all: only VMs on this host", 1},
        {"class", KEY_CLASS, "CLASS", 0,
         "list: only VMs of this class: idle, cpu, gpu, mixed or alternating", 1},
        {"project", KEY_PROJECT, "PROJECT", 0,
         "list: only VMs of this OpenStack project, by name or id", 1},
        {"name", KEY_NAME, "PATTERN", 0,
         "list: only VMs with this name in libvirt or OpenStack; * and ? are wildcards", 1},
        {"since", VG_WHEN_SINCE, "TIME", 0,
         "list, history: start of a past period (default for history: -1h); " VG_WHEN_HELP, 2},
        {"until", VG_WHEN_UNTIL, "TIME", 0, "list, history: end of the period (default: now)", 2},
        {"step", KEY_STEP, "STEP", 0, "history: raw, or a step such as 10s, 1min or 1h", 2},
        {"source", KEY_SOURCE, "NAME", 0,
         "history: the source of the figures (default: the newest)", 2},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = parse_vm,
        .args_doc = "list\nshow VM\nhistory VM\nset VM --policy=MODE",
        .doc = "Shows the VMs of the host that vgpud monitors. VM is a UUID, a name, or an "
               "OpenStack name that only one VM has.",
        .children = vg_online_children,
    };
    struct vm_args args = {
        .online = {.verbs = verbs,
                   .list = "/v1/vms",
                   .n_verbs = G_N_ELEMENTS(verbs),
                   .can_watch = true},
    };

    if (argc > 1 && strcmp(argv[1], "set") == 0)
        return vg_vm_set(argc, argv);
    argp_parse(&argp, argc, argv, 0, NULL, &args);
    return vg_online_run(&args.online, &args);
}

static error_t
parse_top(int key, char *arg, struct argp_state *state)
{
    struct vm_args *args = state->input;

    (void)arg;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->online;
        return 0;
    case KEY_PLAIN:
        args->plain = true;
        return 0;
    case KEY_ALL:
        args->all = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int
vg_cmd_top(int argc, char **argv)
{
    static const struct vg_online_verb verb = {NULL, VG_OBJECT_NONE, NULL, cmd_vm_show_list};
    static const struct argp_option options[] = {
        {"plain", KEY_PLAIN, NULL, 0, "print the list repeatedly instead of using a full screen",
         1},
        {"all", KEY_ALL, NULL, 0,
         "print a plain list of the VMs with the largest losses on all known hosts", 1},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = parse_top,
        .doc = "Shows a live view of the VMs, largest loss of CPU time first. Press `?` for the "
               "keys.",
        .children = vg_online_children,
    };
    struct vm_args args = {
        .online = {.verbs = &verb, .n_verbs = 1, .can_watch = true, .watch_s = VG_WATCH_S},
        .sort = "lost",
    };
    int status;

    argp_parse(&argp, argc, argv, 0, NULL, &args);
    if (args.all)
        args.limit = TOP_ALL;
    bool screen =
        !args.plain && !args.all && args.online.format == VG_OUTPUT_TABLE && args.online.count == 0;
    if (screen && vg_top_run(&args.online.remote, args.online.watch_s, &status))
        return status;
    return vg_online_run(&args.online, &args);
}
