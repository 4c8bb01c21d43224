/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/trace-args.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "cli/cli.h"
#include "cli/record-dir.h"
#include "host/vm-map.h"
#include "trace/absent-cpus.h"
#include "trace/needs.h"
#include "trace/open.h"

#define DEFAULT_HOST       "localhost"
#define WINDOW_MIN_S       0.001
#define WINDOW_MAX_S       86400.0
#define PROBLEMS_ON_STDERR 5

/* The minimum number of odd records for a warning, if they exceed 1 % of all. A lost record causes
 * one or two. */
#define ODD_RECORDS_TOLD 20

/* The maximum number of VMs named in a warning. */
#define NAMES_ON_STDERR 10

enum { KEY_BEGIN = 0x100, KEY_END, KEY_WINDOW, KEY_VM_MAP, KEY_HOST, KEY_CONFIG, KEY_NO_PROGRESS };

static const struct argp_option options[] = {
    {"begin", KEY_BEGIN, "NS", 0, "analyse records after NS of the raw trace clock", 1},
    {"end", KEY_END, "NS", 0, "analyse records up to and including NS of the raw trace clock", 1},
    {"window", KEY_WINDOW, "SECONDS", 0, "length of a window (default: 1)", 1},
    {"vm-map", KEY_VM_MAP, "FILE", 0,
     "file with VM names: lines of `pid name [uuid]`; - is standard input", 2},
    {"host", KEY_HOST, "NAME", 0,
     "name for the recorded host (default: its own name, or " DEFAULT_HOST ")", 2},
    {"config", KEY_CONFIG, "FILE", 0,
     "file with class thresholds and other event names; see vgpud-policy(7)", 2},
    {"no-progress", KEY_NO_PROGRESS, NULL, 0, "do not show a progress line on a terminal", 3},
    {0},
};

static const struct argp_option part_options[] = {
    {"begin", KEY_BEGIN, "NS", 0, "use records after time NS on the raw trace clock", 1},
    {"end", KEY_END, "NS", 0, "use records up to and including time NS on the raw trace clock", 1},
    {"vm-map", KEY_VM_MAP, "FILE", 0,
     "file with VM names: lines of `pid name [uuid]`; - is standard input", 2},
    {"config", KEY_CONFIG, "FILE", 0, "file with thresholds; see vgpud-policy(7)", 2},
    {"no-progress", KEY_NO_PROGRESS, NULL, 0, "do not show a progress line on a terminal", 3},
    {0},
};

static int64_t
parse_ns(const char *text, const char *option, struct argp_state *state)
{
    gint64 value = 0;
    g_autoptr(GError) error = NULL;

    if (!g_ascii_string_to_signed(text, 10, 0, INT64_MAX, &value, &error))
        vg_cli_usage(state, "%s must be nanoseconds of the trace clock, not '%s'", option, text);
    return value;
}

static int64_t
parse_window(const char *text, struct argp_state *state)
{
    char *end;

    errno = 0;
    double seconds = g_ascii_strtod(text, &end);
    if (errno != 0 || *end || end == text || !(seconds >= WINDOW_MIN_S && seconds <= WINDOW_MAX_S))
        vg_cli_usage(state, "--window must be from %g to %g seconds, not '%s'", WINDOW_MIN_S,
                     WINDOW_MAX_S, text);
    return (int64_t)(seconds * 1e9);
}

static error_t
trace_args_parse(int key, char *arg, struct argp_state *state)
{
    struct vg_trace_args *args = state->input;

    switch (key) {
    case KEY_BEGIN:
        args->begin_ns = parse_ns(arg, "--begin", state);
        args->has_begin = true;
        break;
    case KEY_END:
        args->end_ns = parse_ns(arg, "--end", state);
        args->has_end = true;
        break;
    case KEY_WINDOW:
        args->window_ns = parse_window(arg, state);
        break;
    case KEY_VM_MAP:
        args->vm_map = arg;
        break;
    case KEY_HOST:
        args->host = arg;
        break;
    case KEY_CONFIG:
        args->config_path = arg;
        break;
    case KEY_NO_PROGRESS:
        args->no_progress = true;
        break;
    case ARGP_KEY_ARG:
        g_ptr_array_add(args->paths, arg);
        break;
    case ARGP_KEY_END:
        if (args->paths->len == 0 && !args->may_be_none)
            argp_error(state, "specify a trace: a directory with CTF traces, or a text file");
        if (args->has_begin && args->has_end && args->begin_ns >= args->end_ns)
            argp_error(state, "--begin must be before --end");
        if (args->host && (!args->host[0] || strlen(args->host) > VG_SNAPSHOT_NAME_MAX))
            argp_error(state, "a host name must have 1 to %d bytes", VG_SNAPSHOT_NAME_MAX);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

const struct argp vg_trace_argp = {.options = options, .parser = trace_args_parse};
const struct argp vg_trace_part_argp = {.options = part_options, .parser = trace_args_parse};

void
vg_trace_args_init(struct vg_trace_args *args)
{
    *args = (struct vg_trace_args){
        .paths = g_ptr_array_new(),
        .window_ns = VG_ANALYSIS_WINDOW_NS,
    };
}

void
vg_trace_args_clear(struct vg_trace_args *args)
{
    g_clear_pointer(&args->paths, g_ptr_array_unref);
    g_clear_pointer(&args->own_vm_map, g_free);
    g_clear_pointer(&args->own_text, g_free);
    g_clear_pointer(&args->vm_map_text, g_free);
    g_clear_pointer(&args->host_name, g_free);
    g_clear_pointer(&args->aliases, vg_aliases_unref);
}

/* A directory made by `vgpuctl record` is a trace with a VM map, unless another map is given. */
static void
use_recording(struct vg_trace_args *args)
{
    if (args->paths->len != 1)
        return;
    args->own_vm_map = g_build_filename(args->paths->pdata[0], VG_RECORD_VM_MAP, NULL);
    args->own_text = g_build_filename(args->paths->pdata[0], VG_RECORD_TEXT, NULL);
    if (!g_file_test(args->own_vm_map, G_FILE_TEST_IS_REGULAR))
        return;
    if (!args->vm_map)
        args->vm_map = args->own_vm_map;
    if (g_file_test(args->own_text, G_FILE_TEST_IS_REGULAR))
        args->paths->pdata[0] = args->own_text;
}

GPtrArray *
vg_trace_args_open(struct vg_trace_args *args, GError **err)
{
    g_autoptr(vg_topology) unused = NULL;

    if (vg_cli_read_config(args->config_path, &args->config, &args->aliases, err) < 0)
        return NULL;
    use_recording(args);
    if (args->vm_map) {
        if (vg_file_read(args->vm_map, VG_VM_MAP_TEXT_MAX, &args->vm_map_text, &args->vm_map_size,
                         err) < 0)
            return NULL;
        /* Check the map before reading a long trace. */
        unused = vg_topology_new();
        if (vg_vm_map_apply(args->vm_map, args->vm_map_text, args->vm_map_size, unused, err) < 0)
            return NULL;
    }
    g_autoptr(GPtrArray) recordings = vg_recordings_open((const char *const *)args->paths->pdata,
                                                         args->paths->len, args->aliases, err);
    if (recordings && recordings->len > 1 && (args->has_begin || args->has_end)) {
        vg_error(err, VG_E_INVALID,
                 "--begin and --end need one clock, but there are %u recordings without a "
                 "common clock; specify one of them",
                 recordings->len);
        return NULL;
    }
    if (recordings)
        vg_progress_init(&args->progress, "reading", !args->no_progress);
    return g_steal_pointer(&recordings);
}

struct vg_analysis_options
vg_trace_args_options(struct vg_trace_args *args, const vg_recording *recording)
{
    g_free(args->host_name);
    const char *recorded = vg_recording_host(recording);
    args->host_name = g_strdup(args->host ? args->host : recorded ? recorded : DEFAULT_HOST);
    return (struct vg_analysis_options){
        .has_begin = args->has_begin,
        .has_end = args->has_end,
        .begin_ns = args->begin_ns,
        .end_ns = args->end_ns,
        .window_ns = args->window_ns,
        .host = args->host_name,
        .config = &args->config,
        .vm_map_name = args->vm_map,
        .vm_map_text = args->vm_map_text,
        .vm_map_size = args->vm_map_size,
        .progress = &args->progress,
    };
}

/* Returns a note for the planner if a part of the recording is missing, or NULL. The caller frees
 * it. */
static char *
damage_note(const struct vg_trace_args *args, const struct vg_analysis *analysis)
{
    const struct vg_trace_problems *problems = &analysis->recording->problems;
    uint64_t n = problems->list->len + problems->dropped;

    if (n == 0)
        return NULL;
    return g_strdup_printf("host '%s': the recording could not be read in full (%" G_GUINT64_FORMAT
                           " problems), so its figures may be too low",
                           args->host_name, n);
}

vg_snapshot *
vg_trace_args_snapshot(const struct vg_trace_args *args, const struct vg_analysis *analysis,
                       GError **err)
{
    g_autofree char *note = damage_note(args, analysis);
    const struct vg_engine_part part = {
        .source = VG_SOURCE_TRACE,
        .note = note,
        .clock_offset_ns = analysis->recording->clock_offset_ns,
        .lacks = &analysis->period.lacks,
    };
    g_autoptr(vg_snapshot) description = vg_snapshot_new(VG_SOURCE_TRACE);
    struct vg_snap_host *host = vg_snapshot_add_host(description, args->host_name);

    host->cpus = analysis->host_cpus;
    const struct vg_snap_host *const hosts[] = {host};
    return vg_engine_snapshot(analysis->engine, &part, hosts, 1, err);
}

static bool
is_many(uint64_t odd, const vg_recording *recording)
{
    return odd >= ODD_RECORDS_TOLD && odd > recording->events / 100;
}

/* Warns of names in the user's VM map that match no record. A recording also contains the names of
 * idle VMs. */
static void
trace_args_warn_names(const struct vg_trace_args *args, const struct vg_analysis *analysis)
{
    g_autoptr(GPtrArray) names = vg_topology_unmatched_names(analysis->topology);
    g_autoptr(GString) text = g_string_new(NULL);
    const GArray *recorded = analysis->recording->vms;

    for (guint i = 0; i < recorded->len; i++) {
        const char *name = g_array_index(recorded, struct vg_recorded_vm, i).name;
        guint at;
        if (g_ptr_array_find_with_equal_func(names, name, g_str_equal, &at))
            g_ptr_array_remove_index(names, at);
    }
    if (!args->vm_map || args->vm_map == args->own_vm_map || names->len == 0)
        return;
    for (unsigned int i = 0; i < names->len && i < NAMES_ON_STDERR; i++)
        g_string_append_printf(text, "%s'%s'", i > 0 ? ", " : "", (char *)names->pdata[i]);
    if (names->len > NAMES_ON_STDERR)
        g_string_append_printf(text, " and %u more", names->len - NAMES_ON_STDERR);
    vg_cli_warn("%s: no record has an ID that the VM map contains for %s", args->vm_map, text->str);
}

/* Warns of VMs that are known only by a thread whose process no record identifies. */
static void
trace_args_warn_threads(const vg_recording *recording, const vg_topology *topology)
{
    unsigned int n = 0;

    for (uint32_t i = 0; i < vg_topology_process_count(topology); i++) {
        const struct vg_process *process = vg_topology_process_at(topology, i);
        n += process && !process->merged_into && process->is_vm && !process->pid_known &&
             !process->name[0];
    }
    if (n > 0)
        vg_cli_warn("%s: no record identifies the process of %u vCPU threads, so each of them "
                    "counts as a separate VM; add their thread IDs to a VM map",
                    recording->name, n);
}

/* Warns of events that were not recorded, and of the VM figures that are unknown without them. */
static void
trace_args_warn_missing(const struct vg_analysis *analysis)
{
    const char *name = analysis->recording->name;
    const struct vg_adapter_need *need;

    if (analysis->period.vms->len == 0 && analysis->period.gpus->len == 0)
        return;
    if (analysis->absent_cpus->len > 0) {
        g_autofree char *cpus = vg_absent_cpus_text(analysis->absent_cpus);
        g_autofree char *figures = vg_needs_figures_text(VG_CPU_ABSENT_CPUS);
        vg_cli_warn("%s: CPU %s of the host has no records, so for VMs, %s", name, cpus, figures);
    }
    for (size_t i = 0; (need = vg_needs_at(i)); i++) {
        if (!vg_analysis_misses(analysis, need))
            continue;
        g_autofree char *figures = vg_needs_figures_text(need->lack);
        vg_cli_warn("%s: %s was recorded without %s, so for VMs, %s", name, need->beside,
                    need->event, figures);
    }
}

void
vg_trace_args_warn(const struct vg_trace_args *args, const struct vg_analysis *analysis)
{
    const vg_recording *recording = analysis->recording;
    const struct vg_trace_problems *problems = &recording->problems;

    for (unsigned int i = 0; i < problems->list->len && i < PROBLEMS_ON_STDERR; i++) {
        const struct vg_trace_problem *problem = g_ptr_array_index(problems->list, i);
        vg_cli_warn("%s, offset %" G_GINT64_FORMAT ": %s", problem->file, problem->offset,
                    problem->what);
    }
    uint64_t more = problems->dropped;
    if (problems->list->len > PROBLEMS_ON_STDERR)
        more += problems->list->len - PROBLEMS_ON_STDERR;
    if (more > 0)
        vg_cli_warn("%s: %" G_GUINT64_FORMAT " more problems; -o json lists the first %d",
                    recording->name, more, VG_TRACE_PROBLEMS_MAX);
    if (is_many(analysis->period.discontinuities, recording))
        vg_cli_warn(
            "%s: %" G_GUINT64_FORMAT
            " of its records contradict earlier ones: some are missing, duplicated or out of "
            "order, and the figures are not reliable%s",
            recording->name, analysis->period.discontinuities,
            recording->clock_offset_ns == 0 && analysis->period.lost_events == 0
                ? " (perf script shows lost events only with --show-lost-events)"
                : "");
    if (is_many(recording->backwards, recording))
        vg_cli_warn("%s: %" G_GUINT64_FORMAT " of its records have an earlier time than the "
                    "previous record; the trace must be one recording, sorted by time, with "
                    "absolute times",
                    recording->name, recording->backwards);
    trace_args_warn_missing(analysis);
    trace_args_warn_threads(recording, analysis->topology);
    trace_args_warn_names(args, analysis);
}
