/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl analyze: computes the figures of all VMs in recorded traces.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/analysis-json.h"
#include "cli/cli.h"
#include "cli/figure-columns.h"
#include "cli/output.h"
#include "cli/pictures.h"
#include "cli/trace-args.h"

enum { KEY_TASKS = 0x200, KEY_PER_WINDOW, KEY_SNAPSHOT, KEY_PERFETTO, KEY_SVG };

struct analyze_args {
    struct vg_trace_args trace;
    enum vg_output_format format;
    bool format_given;
    bool tasks;
    bool per_window;
    const char *snapshot;
    const char *perfetto;
    const char *svg; /* the prefix of the file names */
};

static const struct argp_option options[] = {
    {"output", 'o', "FORMAT", 0, "table (default), wide, name, json, yaml or csv", 0},
    {"tasks", KEY_TASKS, NULL, 0, "also print the figures of every thread", 1},
    {"per-window", KEY_PER_WINDOW, NULL, 0,
     "print one line of JSON for each window during the analysis", 1},
    {"snapshot", KEY_SNAPSHOT, "FILE", 0, "also write a snapshot for `vgpuctl placement`", 2},
    {"perfetto", KEY_PERFETTO, "FILE", 0, "also write a trace for the Perfetto viewer", 2},
    {"svg", KEY_SVG, "PREFIX", 0, "also draw PREFIX-utilisation.svg and PREFIX-requests.svg", 2},
    {0},
};

static error_t
cmd_analyze_parse(int key, char *arg, struct argp_state *state)
{
    struct analyze_args *args = state->input;
    g_autoptr(GError) error = NULL;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->trace;
        break;
    case 'o':
        if (vg_output_format_from_name(arg, &args->format, &error) < 0)
            vg_cli_usage(state, "%s", error->message);
        args->format_given = true;
        break;
    case KEY_TASKS:
        args->tasks = true;
        break;
    case KEY_PER_WINDOW:
        args->per_window = true;
        break;
    case KEY_SNAPSHOT:
        if (strcmp(arg, "-") == 0)
            argp_error(state, "--snapshot needs a file name; `vgpuctl snapshot` prints a snapshot");
        args->snapshot = arg;
        break;
    case KEY_PERFETTO:
        if (strcmp(arg, "-") == 0)
            argp_error(state, "--perfetto needs a file name");
        args->perfetto = arg;
        break;
    case KEY_SVG:
        if (!arg[0] || strcmp(arg, "-") == 0)
            argp_error(state, "--svg needs a prefix for its file names");
        args->svg = arg;
        break;
    case ARGP_KEY_END:
        if (args->per_window && args->format_given && args->format != VG_OUTPUT_JSON)
            argp_error(state, "--per-window prints only JSON; leave out --output, or use -o json");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* ---- tables ---- */

static const struct vg_column trace_columns[] = {
    {"TRACE", "name", VG_CELL_TEXT, false},
    {"SECONDS", "duration_ns", VG_CELL_SECONDS, false},
    {"CPUS", "cpus", VG_CELL_COUNT, false},
    {"EVENTS", "events", VG_CELL_COUNT, false},
    {"LOST", "lost", VG_CELL_COUNT, false},
    {"PROBLEMS", "n_problems", VG_CELL_COUNT, false},
    {"DISCONTINUITIES", "discontinuities", VG_CELL_COUNT, true},
};

static const struct vg_column cmd_analyze_vm_columns[] = {
    {"VM", "name", VG_CELL_TEXT, false},
    {"UUID", "uuid", VG_CELL_TEXT, true},
    {"PID", "pid", VG_CELL_COUNT, true},
    {"VCPUS", "n_vcpus", VG_CELL_COUNT, false},
    {"ON CPUS", "cpus", VG_CELL_LIST, true},
    {"CLASS", "class", VG_CELL_TEXT, false},
    {"CPU %", "cpu_intensity", VG_CELL_PERCENT, false},
    {"GPU %", "gpu_intensity", VG_CELL_PERCENT, true},
    VG_FIGURE_COLUMNS{"LOWER BOUND", "lower_bound", VG_CELL_BOUNDS, true},
};

static const struct vg_column lost_columns[] = {
    {"VM", "victim", VG_CELL_TEXT, false},
    {"LOST CPU TO", "aggressor", VG_CELL_TEXT, false},
    {"SECONDS", "ns", VG_CELL_SECONDS, false},
    {"% OF ITS WAITS", "share", VG_CELL_PERCENT, false},
    {"PREEMPTIONS", "count", VG_CELL_COUNT, false},
    VG_LOSS_ROLE_COLUMNS,
};

static const struct vg_column cmd_analyze_gpu_columns[] = {
    {"GPU OF", "user", VG_CELL_TEXT, false},
    {"DEVICE", "device", VG_CELL_TEXT, false},
    {"ENGINE", "engine", VG_CELL_TEXT, false},
    VG_GPU_COLUMNS};

static const struct vg_column task_columns[] = {
    {"TID", "tid", VG_CELL_COUNT, false},
    {"PID", "pid", VG_CELL_COUNT, false},
    {"COMM", "comm", VG_CELL_TEXT, false},
    {"RUN s", "run_ns", VG_CELL_SECONDS, false},
    {"PREEMPT s", "preempt_ns", VG_CELL_SECONDS, false},
    {"WAKE s", "wake_wait_ns", VG_CELL_SECONDS, false},
    {"BLOCKED s", "blocked_ns", VG_CELL_SECONDS, false},
    {"SWITCHES", "switches_out", VG_CELL_COUNT, false},
    {"PREEMPTIONS", "preemptions", VG_CELL_COUNT, false},
    {"WAKEUPS", "wakeups", VG_CELL_COUNT, true},
    {"OBSERVED s", "observed_ns", VG_CELL_SECONDS, true},
    {"LOWER BOUND", "lower_bound", VG_CELL_BOUNDS, true},
};

/* The document, and rows for the tables only. The caller owns them. */
struct tables {
    json_object *trace, *vms, *lost, *gpu, *tasks;
};

static json_object *
cmd_analyze_copy(json_object *object)
{
    json_object *result = NULL;

    json_object_deep_copy(object, &result, NULL);
    return result;
}

static int64_t
int_member(json_object *object, const char *name)
{
    return json_object_get_int64(vg_output_member(object, name));
}

/* Marks the losses as lower bounds, except the number of preemptions. */
static void
cmd_analyze_bound_loss(json_object *row)
{
    static const char *const bounds[] = {"ns", "vcpu_ns", "emulator_ns"};
    json_object *names = json_object_new_array();

    for (size_t i = 0; i < G_N_ELEMENTS(bounds); i++)
        vg_json_append(names, json_object_new_string(bounds[i]));
    vg_json_add(row, "bounds", names);
}

static void
add_lost_rows(json_object *rows, json_object *vm)
{
    json_object *lost_to = vg_output_member(vm, "lost_to");
    int64_t waits = int_member(vm, "preempt_ns") + int_member(vm, "wake_wait_ns");

    for (size_t i = 0; i < vg_output_length(lost_to); i++) {
        json_object *row = cmd_analyze_copy(json_object_array_get_idx(lost_to, i));
        vg_json_add_string(row, "victim", json_object_get_string(vg_output_member(vm, "name")));
        if (vg_output_member(row, "lower_bound"))
            cmd_analyze_bound_loss(row);
        else
            vg_json_add_double(row, "share",
                               waits > 0 ? (double)int_member(row, "ns") / (double)waits : 0);
        vg_json_append(rows, row);
    }
}

/* user is NULL to show each row's own comm and pid. */
static void
add_gpu_rows(json_object *rows, json_object *uses, const char *user)
{
    for (size_t i = 0; i < json_object_array_length(uses); i++) {
        json_object *row = cmd_analyze_copy(json_object_array_get_idx(uses, i));
        g_autofree char *process =
            user ? NULL
                 : g_strdup_printf("%s (%" G_GINT64_FORMAT ")",
                                   json_object_get_string(vg_output_member(row, "comm")),
                                   int_member(row, "pid"));
        vg_json_add_string(row, "user", user ? user : process);
        vg_json_append(rows, row);
    }
}

static void
make_gpu_rows(json_object *doc, json_object *rows)
{
    json_object *vms = vg_output_member(doc, "vms");

    for (size_t i = 0; i < json_object_array_length(vms); i++) {
        json_object *vm = json_object_array_get_idx(vms, i);
        add_gpu_rows(rows, vg_output_member(vm, "gpu"),
                     json_object_get_string(vg_output_member(vm, "name")));
    }
    add_gpu_rows(rows, vg_output_member(doc, "gpu_processes"), NULL);
    add_gpu_rows(rows, vg_output_member(doc, "gpus"), "all");
}

/* Omits zeros that were not measured. */
static void
leave_out_unknown(json_object *vm)
{
    static const char *const of_cpus[] = {"cpu_intensity", "run_ns",     "preempt_ns",
                                          "wake_wait_ns",  "blocked_ns", "preemptions"};

    for (size_t i = 0; i < G_N_ELEMENTS(of_cpus) && int_member(vm, "n_vcpus") == 0; i++)
        json_object_object_del(vm, of_cpus[i]);
}

/* Adds the column of CSV that lists the lower bounds. */
static void
cmd_analyze_name_bounds(json_object *row)
{
    json_object *bounds = vg_output_member(row, "bounds");

    if (bounds)
        vg_json_add(row, "lower_bound", json_object_get(bounds));
}

static void
make_tables(json_object *doc, struct tables *ret)
{
    json_object *trace = cmd_analyze_copy(vg_output_member(doc, "trace"));
    json_object *vms = vg_output_member(doc, "vms");
    json_object *tasks = vg_output_member(doc, "tasks");

    ret->trace = json_object_new_array();
    ret->vms = json_object_new_array();
    ret->lost = json_object_new_array();
    ret->gpu = json_object_new_array();
    make_gpu_rows(doc, ret->gpu);
    ret->tasks = tasks ? json_object_get(tasks) : json_object_new_array();
    vg_json_add_int64(trace, "duration_ns",
                      int_member(trace, "end_ns") - int_member(trace, "begin_ns"));
    vg_json_add_int64(trace, "n_problems",
                      (int64_t)json_object_array_length(vg_output_member(trace, "problems")) +
                          int_member(trace, "problems_dropped"));
    vg_json_append(ret->trace, trace);
    for (size_t i = 0; i < json_object_array_length(vms); i++) {
        json_object *vm = cmd_analyze_copy(json_object_array_get_idx(vms, i));
        vg_json_add_int64(vm, "n_vcpus",
                          (int64_t)json_object_array_length(vg_output_member(vm, "vcpus")));
        leave_out_unknown(vm);
        add_lost_rows(ret->lost, vm);
        cmd_analyze_name_bounds(vm);
        vg_json_append(ret->vms, vm);
    }
    for (size_t i = 0; i < json_object_array_length(ret->tasks); i++)
        cmd_analyze_name_bounds(json_object_array_get_idx(ret->tasks, i));
}

static void
clear_tables(struct tables *tables)
{
    json_object_put(tables->trace);
    json_object_put(tables->vms);
    json_object_put(tables->lost);
    json_object_put(tables->gpu);
    json_object_put(tables->tasks);
}

static int
print_tables(const struct analyze_args *args, json_object *doc, GError **err)
{
    struct tables rows;

    make_tables(doc, &rows);
    const struct vg_table vms = {NULL, rows.vms, cmd_analyze_vm_columns,
                                 G_N_ELEMENTS(cmd_analyze_vm_columns),
                                 "This trace has no VM threads (see VMS in vgpuctl-traces(5))."};
    const struct vg_table tasks = {"Every thread", rows.tasks, task_columns,
                                   G_N_ELEMENTS(task_columns), NULL};
    const struct vg_table tables[] = {
        {NULL, rows.trace, trace_columns, G_N_ELEMENTS(trace_columns), NULL},
        vms,
        {"Who held the CPU while a VM waited for it", rows.lost, lost_columns,
         G_N_ELEMENTS(lost_columns), NULL},
        {"GPU requests", rows.gpu, cmd_analyze_gpu_columns, G_N_ELEMENTS(cmd_analyze_gpu_columns),
         NULL},
        tasks,
    };
    int status;
    if (args->format == VG_OUTPUT_CSV)
        status = vg_output_print(args->format, doc, args->tasks ? &tasks : &vms, 1, err);
    else
        status = vg_output_print(args->format, doc, tables, G_N_ELEMENTS(tables), err);
    clear_tables(&rows);
    return status;
}

/* ---- running ---- */

/* The data for processing each window. */
struct use {
    const struct analyze_args *args;
    vg_pictures *pictures;
};

static int
use_window(void *data, const vg_recording *recording, const struct vg_window *window, GError **err)
{
    const struct use *use = data;

    if (vg_pictures_window(use->pictures, window, err) < 0)
        return -1;
    if (!use->args->per_window)
        return 0;
    g_autoptr(json_object) object = vg_window_to_json(recording, window);
    g_autofree char *line = vg_json_to_text(object, false);
    return vg_cli_print(line, err);
}

static int
write_snapshot(const struct analyze_args *args, const vg_snapshot *snapshot, GError **err)
{
    g_autoptr(json_object) object = vg_snapshot_to_json(snapshot);
    g_autofree char *text = vg_json_to_text(object, true);

    return vg_file_write(args->snapshot, text, err);
}

/* Analyses a recording and frees it. Returns the document, or NULL. */
static json_object *
analyze_one(struct analyze_args *args, vg_recording *take_recording, GError **err)
{
    struct vg_analysis_options run = vg_trace_args_options(&args->trace, take_recording);
    g_autoptr(vg_pictures) pictures =
        vg_pictures_open(args->perfetto, args->svg, take_recording, err);
    struct use use = {args, pictures};

    if (!pictures) {
        vg_recording_free(take_recording);
        return NULL;
    }
    run.tasks = args->tasks;
    run.on_window = use_window;
    run.data = &use;
    run.watch = vg_pictures_watch(pictures);
    struct vg_analysis *analysis = vg_analysis_run(take_recording, &run, err);
    if (!analysis)
        return NULL;
    json_object *doc = NULL;
    g_autoptr(vg_snapshot) snapshot = vg_trace_args_snapshot(&args->trace, analysis, err);
    if (snapshot && (!args->snapshot || write_snapshot(args, snapshot, err) == 0) &&
        vg_pictures_write(pictures, analysis, args->trace.host_name, err) == 0)
        doc = vg_analysis_to_json(analysis, snapshot, args->trace.host_name);
    vg_trace_args_warn(&args->trace, analysis);
    vg_analysis_free(analysis);
    return doc;
}

static int
print_documents(const struct analyze_args *args, json_object *traces, GError **err)
{
    size_t n = json_object_array_length(traces);
    bool one_document = args->format == VG_OUTPUT_JSON || args->format == VG_OUTPUT_YAML;

    if (n > 1 && one_document) {
        g_autoptr(json_object) all = json_object_new_object();
        vg_json_add(all, "traces", json_object_get(traces));
        return vg_output_print(args->format, all, NULL, 0, err);
    }
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            putchar('\n');
        if (print_tables(args, json_object_array_get_idx(traces, i), err) < 0)
            return -1;
    }
    return 0;
}

static int
analyze(struct analyze_args *args, GError **err)
{
    g_autoptr(GPtrArray) recordings = vg_trace_args_open(&args->trace, err);
    g_autoptr(json_object) traces = json_object_new_array();

    if (!recordings)
        return -1;
    /* Check this before a long analysis, not after it. */
    if ((args->snapshot && vg_file_check_place(args->snapshot, err) < 0) ||
        vg_pictures_check(args->perfetto, args->svg, err) < 0)
        return -1;
    if (recordings->len > 1 && args->snapshot)
        return vg_error(err, VG_E_INVALID,
                        "a snapshot describes one host at one time, but there are %u "
                        "recordings; specify one of them",
                        recordings->len);
    if (recordings->len > 1 && (args->perfetto || args->svg))
        return vg_error(err, VG_E_INVALID,
                        "%s shows one recording, but there are %u; specify one of them",
                        args->perfetto ? "--perfetto" : "--svg", recordings->len);
    if (recordings->len > 1 && args->format == VG_OUTPUT_CSV && !args->per_window)
        return vg_error(err, VG_E_INVALID,
                        "-o csv prints one table, but there are %u recordings; specify one of "
                        "them",
                        recordings->len);
    while (recordings->len > 0) {
        json_object *doc = analyze_one(args, g_ptr_array_steal_index(recordings, 0), err);
        if (!doc)
            return -1;
        vg_json_append(traces, doc);
    }
    return args->per_window ? 0 : print_documents(args, traces, err);
}

int
vg_cmd_analyze(int argc, char **argv)
{
    static const struct argp_child children[] = {{&vg_trace_argp, 0, "Analysis:", 5}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = cmd_analyze_parse,
        .args_doc = "TRACE...",
        .doc = "Reads recorded traces and reports how long each VM's vCPUs ran and waited, and "
               "what ran instead.\vTRACE is a directory with CTF traces (LTTng kernel, or perf "
               "data convert --to-ctf) anywhere below it, or the text output of trace-cmd "
               "report, tracefs or perf script, plain or compressed (gzip, xz, zstd, bzip2).",
        .children = children,
    };
    struct analyze_args args = {.format = VG_OUTPUT_TABLE};
    g_autoptr(GError) error = NULL;

    vg_trace_args_init(&args.trace);
    argp_parse(&argp, argc, argv, 0, NULL, &args);
    analyze(&args, &error);
    vg_trace_args_clear(&args.trace);
    return error ? vg_cli_fail(error) : VG_EXIT_OK;
}
