/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl simulate: simulates a scenario of vGPUs with one or all modes of a GPU scheduler:
 *
 *   policy/gpusched-json    JSON -> struct vg_gpusched_scenario; or, for a recording,
 *                           analysis -> simulate-stream: a GPU's requests, by VM and engine
 *                           -> policy/gpustream: chains that repeat them -> a scenario
 *   policy/gpusched         advances the time; requests arrive (gpusched-arrivals), wait, run, end;
 *                           gpusched-gvtg, -turns and -weighted choose an engine's next client
 *   simulate-trace          records of each request's life, as they occur -> tracepoints
 *                           -> trace/ctf-write
 *   policy/gpusched-result  exact figures -> simulate-json -> output
 *
 * The simulator never reads its own records. Its figures come from separate counters, so that they
 * can serve as the reference for programs that read the records.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/simulate-json.h"
#include "cli/simulate-propose.h"
#include "cli/simulate-stream.h"
#include "cli/simulate-trace.h"
#include "ledger/gpu-ledger.h"
#include "policy/gpusched.h"

enum { KEY_MODE = 0x500, KEY_SEED, KEY_COMPARE, KEY_PROPOSE, KEY_TRACE_OUT, KEY_LOSE };

struct simulate_args {
    struct vg_trace_args trace; /* the paths: one scenario, or traces */
    struct vg_simulate_options gpu;
    const char *scenario; /* NULL if the paths are traces */
    bool propose;
    enum vg_output_format format;
    bool mode_given;
    enum vg_gpusched_mode mode;
    bool seed_given;
    uint64_t seed;
    bool compare;
    const char *trace_out; /* may be NULL */
    double lose;           /* the fraction of records to drop, 0..1 */
};

static const struct argp_option options[] = {
    {"mode", KEY_MODE, "MODE", 0, "use this scheduler mode instead of the scenario's", 0},
    {"seed", KEY_SEED, "N", 0, "use this random seed instead of the scenario's", 0},
    {"compare", KEY_COMPARE, NULL, 0, "simulate every mode, one after the other", 0},
    {"propose", KEY_PROPOSE, NULL, 0, "find out whether another mode would be better", 0},
    {"trace-out", KEY_TRACE_OUT, "DIR", 0,
     "also write the simulation as a CTF trace, and its exact figures to DIR.truth.json", 1},
    {"lose", KEY_LOSE, "PERCENT", 0,
     "drop this percentage of the trace's events and report them as lost", 1},
    {"output", 'o', "FORMAT", 0, "table (default), wide, name, json, yaml or csv", 2},
    {0},
};

static double
parse_percent(const char *arg, GError **err)
{
    char *end;
    double percent = g_ascii_strtod(arg, &end);

    if (end == arg || *end || !(percent >= 0 && percent <= 100))
        vg_error(err, VG_E_INVALID, "--lose: '%s' is not a number from 0 to 100", arg);
    return percent;
}

static error_t
parse_option(struct simulate_args *args, int key, const char *arg, struct argp_state *state)
{
    g_autoptr(GError) error = NULL;

    switch (key) {
    case 'o':
        vg_output_format_from_name(arg, &args->format, &error);
        break;
    case KEY_MODE:
        args->mode_given = vg_gpusched_mode_from_name(arg, &args->mode, &error) == 0;
        break;
    case KEY_SEED:
        args->seed_given = true;
        if (!g_ascii_string_to_unsigned(arg, 10, 0, (guint64)VG_JSON_INT_MAX, &args->seed, &error))
            g_prefix_error(&error, "--seed: ");
        break;
    case KEY_COMPARE:
        args->compare = true;
        break;
    case KEY_PROPOSE:
        args->propose = true;
        break;
    case KEY_TRACE_OUT:
        args->trace_out = arg;
        break;
    case KEY_LOSE:
        args->lose = parse_percent(arg, &error) / 100;
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    if (error)
        vg_cli_usage(state, "%s", error->message);
    return 0;
}

/* Rejects options that the scenario itself contains, and options that only scenarios support. */
static void
check_input(struct simulate_args *args, const struct argp_state *state)
{
    const GPtrArray *paths = args->trace.paths;

    if (vg_stream_is_trace(paths->pdata[0])) {
        if (args->seed_given)
            argp_error(state, "--seed does not apply to a recording, which uses no random numbers");
        return;
    }
    args->scenario = paths->pdata[0];
    const char *given = vg_simulate_options_given(&args->gpu);
    if (paths->len > 1)
        vg_cli_usage(state, "specify only one scenario; '%s' is another",
                     (const char *)paths->pdata[1]);
    bool of_trace =
        args->trace.has_begin || args->trace.has_end || args->trace.vm_map || args->gpu.device;
    /* A missing file may have been meant as a recording. Another check reports that it is
     * missing. */
    if (of_trace &&
        (strcmp(args->scenario, "-") == 0 || g_file_test(args->scenario, G_FILE_TEST_EXISTS)))
        argp_error(state, "--begin, --end, --vm-map and --device apply to recordings, not to "
                          "scenarios");
    if (given && !args->propose)
        argp_error(state, "a scenario defines how its GPU is shared: %s needs --propose", given);
}

static void
cmd_simulate_check(struct simulate_args *args, const struct argp_state *state)
{
    if (args->trace.paths->len == 0)
        argp_error(state, "specify a scenario or a trace; - reads a scenario from standard input");
    if (args->compare && args->mode_given)
        argp_error(state, "--compare runs every mode; --mode does not apply");
    if (args->propose && (args->compare || args->mode_given))
        argp_error(state, "--propose chooses the modes; leave out %s",
                   args->compare ? "--compare" : "--mode");
    if (args->trace_out && (args->compare || args->propose))
        argp_error(state, "--trace-out writes one simulation, but %s runs several",
                   args->compare ? "--compare" : "--propose");
    if (args->lose > 0 && !args->trace_out)
        argp_error(state, "--lose needs --trace-out");
    check_input(args, state);
    if (args->trace_out && !args->scenario)
        argp_error(state, "--trace-out applies only to scenarios, and this is a trace");
}

static error_t
cmd_simulate_parse(int key, char *arg, struct argp_state *state)
{
    struct simulate_args *args = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &args->trace;
        state->child_inputs[1] = &args->gpu;
        return 0;
    case ARGP_KEY_END:
        cmd_simulate_check(args, state);
        return 0;
    default:
        return parse_option(args, key, arg, state);
    }
}

/* ---- tables ---- */

/* The first column is omitted without --compare. */
static const struct vg_column columns[] = {
    {"MODE", "mode", VG_CELL_TEXT, false},
    {"VM", "name", VG_CELL_TEXT, false},
    {"ENGINE", "engine", VG_CELL_TEXT, false},
    {"SHARE %", "share", VG_CELL_PERCENT, false},
    {"REQUESTS", "requests", VG_CELL_COUNT, false},
    {"PARTIAL", "partial", VG_CELL_COUNT, true},
    {"DROPPED", "dropped", VG_CELL_COUNT, true},
    {"BUSY s", "busy_ns", VG_CELL_SECONDS, false},
    {"EXEC s", "exec_ns", VG_CELL_SECONDS, true},
    {"WAIT s", "wait_ns", VG_CELL_SECONDS, false},
    {"MEAN ms", "latency_mean_ns", VG_CELL_MILLISECONDS, false},
    {"P50 ms", "latency_p50_ns", VG_CELL_MILLISECONDS, true},
    {"P95 ms", "latency_p95_ns", VG_CELL_MILLISECONDS, false},
    {"P99 ms", "latency_p99_ns", VG_CELL_MILLISECONDS, false},
    {"MAX ms", "latency_max_ns", VG_CELL_MILLISECONDS, true},
    {"QUEUE", "queue_len_avg", VG_CELL_SHARE, false},
    {"QUEUE MAX", "queue_len_max", VG_CELL_COUNT, true},
};

static void
add_row(json_object *rows, json_object *doc, const char *name, json_object *figures)
{
    json_object *row = NULL;

    if (figures)
        json_object_deep_copy(figures, &row, NULL);
    else
        row = json_object_new_object();
    vg_json_add(row, "mode", json_object_get(vg_output_member(doc, "mode")));
    vg_json_add_string(row, "name", name);
    vg_json_append(rows, row);
}

/* Adds a row for each VM and engine, or a row without figures for a VM without work. */
static void
add_vm_rows(json_object *rows, json_object *doc)
{
    json_object *vms = vg_output_member(doc, "vms");

    for (size_t i = 0; i < vg_output_length(vms); i++) {
        json_object *vm = json_object_array_get_idx(vms, i);
        json_object *gpu = vg_output_member(vm, "gpu");
        const char *name = json_object_get_string(vg_output_member(vm, "name"));
        if (vg_output_length(gpu) == 0)
            add_row(rows, doc, name, NULL);
        for (size_t k = 0; k < vg_output_length(gpu); k++)
            add_row(rows, doc, name, json_object_array_get_idx(gpu, k));
    }
}

static void
add_gpu_rows(json_object *rows, json_object *doc)
{
    json_object *gpus = vg_output_member(doc, "gpus");

    for (size_t i = 0; i < vg_output_length(gpus); i++)
        add_row(rows, doc, "(all)", json_object_array_get_idx(gpus, i));
}

static int
print_one(const struct simulate_args *args, json_object *doc, GError **err)
{
    g_autoptr(json_object) rows = json_object_new_array();
    const struct vg_table table = {NULL, rows, columns + 1, G_N_ELEMENTS(columns) - 1, NULL};

    add_vm_rows(rows, doc);
    if (args->format != VG_OUTPUT_CSV)
        add_gpu_rows(rows, doc);
    return vg_output_print(args->format, doc, &table, 1, err);
}

static int
print_comparison(const struct simulate_args *args, json_object *docs, GError **err)
{
    g_autoptr(json_object) rows = json_object_new_array();
    const struct vg_table table = {NULL, rows, columns, G_N_ELEMENTS(columns), NULL};

    for (size_t i = 0; i < vg_output_length(docs); i++)
        add_vm_rows(rows, json_object_array_get_idx(docs, i));
    return vg_output_print(args->format, docs, &table, 1, err);
}

/* ---- running ---- */

static struct vg_gpusched_scenario *
cmd_simulate_load(const struct simulate_args *args, GError **err)
{
    g_autofree char *text = NULL;
    size_t size;

    if (vg_file_read(args->scenario, VG_GPUSCHED_JSON_MAX, &text, &size, err) < 0)
        return NULL;
    struct vg_gpusched_scenario *scenario = vg_gpusched_scenario_from_json(text, size, err);
    if (!scenario) {
        g_prefix_error(err, "%s: ", args->scenario);
        return NULL;
    }
    if (args->mode_given)
        scenario->mode = args->mode;
    if (args->seed_given)
        scenario->seed = args->seed;
    return scenario;
}

/* stream is the scenario's source, or NULL. */
static json_object *
simulate(const struct vg_gpusched_scenario *scenario, const struct vg_stream *stream, GError **err)
{
    g_autoptr(vg_gpusched) sim = vg_gpusched_new(scenario, NULL, NULL, err);

    if (!sim || vg_gpusched_run(sim, err) < 0)
        return NULL;
    g_autoptr(vg_gpusched_result) result = vg_gpusched_get_result(sim);
    return stream ? vg_simulation_to_json_of(result, stream->device, stream->engines)
                  : vg_simulation_to_json(result);
}

/* Returns DIR.truth.json. The caller frees it. */
static char *
truth_path(const char *dir)
{
    g_autofree char *name = g_strdup(dir);

    for (size_t length = strlen(name); length > 1 && name[length - 1] == '/'; length--)
        name[length - 1] = '\0';
    return g_strconcat(name, ".truth.json", NULL);
}

/* Warns of figures that an analysis of the trace cannot reproduce. */
static void
warn_of_limits(const struct vg_gpusched_result *result)
{
    uint64_t waiting = 0;

    for (unsigned int i = 0; i < result->gpus->len; i++)
        waiting += g_array_index(result->gpus, struct vg_gpusched_figures, i).queue_len_max;
    if (waiting > VG_GPU_OPEN_REQUESTS_MAX)
        fprintf(stderr,
                "vgpuctl: warning: up to %" G_GUINT64_FORMAT " requests wait at a time, but an "
                "analysis of the trace stores only %d of them\n",
                waiting, VG_GPU_OPEN_REQUESTS_MAX);
}

static json_object *
simulate_to_trace(const struct simulate_args *args, const struct vg_gpusched_scenario *scenario,
                  GError **err)
{
    g_autofree char *name = g_path_get_basename(args->trace_out);
    g_autofree char *truth = truth_path(args->trace_out);

    /* The truth file would be inside the trace directory. */
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        vg_error(err, VG_E_INVALID, "--trace-out: '%s' is not a valid name for a new directory",
                 args->trace_out);
        return NULL;
    }
    if (vg_file_check_place(truth, err) < 0)
        return NULL;
    g_autoptr(vg_gpusched_result) result =
        vg_simulate_trace_write(scenario, args->trace_out, args->lose, err);
    if (!result)
        return NULL;
    warn_of_limits(result);
    g_autoptr(json_object) doc = vg_simulation_to_json(result);
    g_autofree char *text = vg_json_to_text(doc, true);
    return vg_file_write(truth, text, err) < 0 ? NULL : g_steal_pointer(&doc);
}

static int
compare(const struct simulate_args *args, struct vg_gpusched_scenario *scenario,
        const struct vg_stream *stream, GError **err)
{
    g_autoptr(json_object) docs = json_object_new_array();

    for (int mode = 0; mode < VG_GPUSCHED_MODE_MAX; mode++) {
        scenario->mode = (enum vg_gpusched_mode)mode;
        json_object *doc = simulate(scenario, stream, err);
        if (!doc) {
            g_prefix_error(err, "mode %s: ", vg_gpusched_mode_names[mode]);
            return -1;
        }
        vg_json_append(docs, doc);
    }
    return print_comparison(args, docs, err);
}

static int
run_modes(const struct simulate_args *args, struct vg_gpusched_scenario *scenario,
          const struct vg_stream *stream, GError **err)
{
    if (args->compare)
        return compare(args, scenario, stream, err);
    g_autoptr(json_object) doc =
        args->trace_out ? simulate_to_trace(args, scenario, err) : simulate(scenario, stream, err);
    return doc ? print_one(args, doc, err) : -1;
}

static int
run_scenario(struct simulate_args *args, GError **err)
{
    g_autoptr(vg_gpusched_scenario) scenario = cmd_simulate_load(args, err);

    if (!scenario)
        return -1;
    if (!args->propose)
        return run_modes(args, scenario, NULL, err);
    enum vg_gpumode_platform platform =
        args->gpu.has_platform ? args->gpu.platform : vg_gpumode_platform_of(scenario->mode);
    if (vg_cli_read_config(args->trace.config_path, &args->trace.config, NULL, err) < 0 ||
        vg_simulate_set_present(scenario, &args->gpu, err) < 0)
        return -1;
    return vg_propose_scenario(scenario, platform, &args->trace.config.gpu_mode, args->format, err);
}

static int
run_traces(struct simulate_args *args, GError **err)
{
    g_autoptr(GPtrArray) streams = vg_stream_read(&args->trace, &args->gpu, err);

    if (!streams)
        return -1;
    if (args->propose)
        return vg_propose_streams(streams, &args->trace.config.gpu_mode, args->format, err);
    const struct vg_stream *first = streams->pdata[0];
    if (streams->len > 1)
        return vg_error(err, VG_E_INVALID,
                        "the recording has requests on %u GPUs, one of them '%s'; choose a GPU "
                        "with --device",
                        streams->len, first->device);
    vg_stream_warn(first);
    if (args->mode_given)
        first->scenario->mode = args->mode;
    return run_modes(args, first->scenario, first, err);
}

int
vg_cmd_simulate(int argc, char **argv)
{
    static const struct argp_child children[] = {
        {&vg_trace_part_argp, 0, "Of a trace:", 4}, {&vg_simulate_argp, 0, "The GPU:", 5}, {0}};
    static const struct argp argp = {
        .options = options,
        .parser = cmd_simulate_parse,
        .args_doc = "SCENARIO.json\nTRACE...",
        .doc = "Simulates how a GPU scheduler serves the vGPUs of a scenario or the requests of a "
               "recording. It shows the share of each vGPU and how long its requests take.\vMODE "
               "is gvtg, no-carry, work-conserving, weighted, best-effort, equal-share, "
               "fixed-share or quantum; vgpuctl-json(5) describes the modes and scenarios.",
        .children = children,
    };
    struct simulate_args args = {.format = VG_OUTPUT_TABLE};
    g_autoptr(GError) error = NULL;

    vg_trace_args_init(&args.trace);
    args.trace.may_be_none = true;
    vg_simulate_options_init(&args.gpu);
    argp_parse(&argp, argc, argv, 0, NULL, &args);
    if (args.scenario)
        run_scenario(&args, &error);
    else
        run_traces(&args, &error);
    vg_simulate_options_clear(&args.gpu);
    vg_trace_args_clear(&args.trace);
    return error ? vg_cli_fail(error) : VG_EXIT_OK;
}
