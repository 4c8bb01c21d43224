/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl record: makes a short recording of this host for `vgpuctl analyze`.
 */
#include "config.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "cli/cli.h"
#include "cli/output.h"
#include "cli/record-dir.h"
#include "cli/record-vms.h"
#include "cli/record.h"
#include "trace/open.h"
#include "trace/recording.h"

#define SECONDS_MIN 1
#define SECONDS_MAX 3600
#define TICK_MS     50
/* The number of events counted between checks for a signal. */
#define COUNT_CHUNK 65536

enum { KEY_WITH = 0x900, KEY_FORCE };

/* The recording methods, in order of preference. */
static const struct vg_record_way *const ways[] = {
    &vg_record_lttng,
    &vg_record_perf,
    &vg_record_tracefs,
};

struct record_args {
    int64_t seconds; /* 0 if not given */
    const char *dir;
    const struct vg_record_way *with; /* NULL for the first method that works */
    bool force;
    enum vg_output_format format;
};

/* The result of a recording. */
struct answer {
    const struct vg_record_way *way;
    json_object *not_with; /* [{name, reason}] */
    int64_t recorded_ns;
    int64_t events; /* VG_NONE if not counted */
    uint64_t lost;
    char *trace, *vm_map;
};

static const struct argp_option options[] = {
    {"directory", 'O', "DIR", 0, "directory for the recording (default: ./recording-TIME)", 1},
    {"with", KEY_WITH, "TRACER", 0,
     "lttng, perf, tracefs, or auto for the first that works (default)", 1},
    {"force", KEY_FORCE, NULL, 0, "replace the recording in DIR", 1},
    {"output", 'o', "FORMAT", 0, "table (default), wide, name, json, yaml or csv", 2},
    {0},
};

static void
parse_with(struct record_args *args, const char *name, const struct argp_state *state)
{
    args->with = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(ways) && !args->with; i++)
        args->with = strcmp(ways[i]->name, name) == 0 ? ways[i] : NULL;
    if (!args->with && strcmp(name, "auto") != 0)
        vg_cli_usage(state, "--with must be lttng, perf, tracefs or auto, not '%s'", name);
}

static error_t
cmd_record_parse(int key, char *arg, struct argp_state *state)
{
    struct record_args *args = state->input;
    g_autoptr(GError) error = NULL;

    switch (key) {
    case 'O':
        if (!arg[0])
            argp_error(state, "-O wants a directory");
        args->dir = arg;
        break;
    case KEY_WITH:
        parse_with(args, arg, state);
        break;
    case KEY_FORCE:
        args->force = true;
        break;
    case 'o':
        if (vg_output_format_from_name(arg, &args->format, &error) < 0)
            vg_cli_usage(state, "%s", error->message);
        break;
    case ARGP_KEY_ARG:
        if (args->seconds != 0)
            vg_cli_usage(state, "unexpected argument '%s'", arg);
        if (!g_ascii_string_to_signed(arg, 10, SECONDS_MIN, SECONDS_MAX, &args->seconds, NULL))
            vg_cli_usage(state, "SECONDS must be from %d to %d, not '%s'", SECONDS_MIN, SECONDS_MAX,
                         arg);
        break;
    case ARGP_KEY_END:
        if (args->seconds == 0)
            argp_error(state, "specify the number of seconds to record");
        if (args->force && !args->dir)
            argp_error(state, "--force needs -O, which names the recording to replace");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* ---- recording ---- */

/* Starts the first method that works. Returns its data, or NULL and the reason. */
static void *
cmd_record_start(const struct record_args *args, struct vg_record_context *context,
                 const vg_record_dir *dir, struct answer *answer, GError **err)
{
    g_autoptr(GString) reasons = g_string_new("no recorder works here");

    for (size_t i = 0; i < G_N_ELEMENTS(ways); i++) {
        g_autoptr(GError) error = NULL;
        if (args->with && args->with != ways[i])
            continue;
        void *way = ways[i]->start(context, &error);
        if (way) {
            answer->way = ways[i];
            return way;
        }
        vg_record_dir_empty(dir);
        if (args->with || context->interrupted) {
            g_propagate_error(err, g_steal_pointer(&error));
            return NULL;
        }
        json_object *object = json_object_new_object();
        vg_json_add_string(object, "name", ways[i]->name);
        vg_json_add_string(object, "reason", error->message);
        vg_json_append(answer->not_with, object);
        g_string_append_printf(reasons, "; %s: %s", ways[i]->name, error->message);
    }
    vg_error(err, VG_E_EXTERNAL, "%s", reasons->str);
    return NULL;
}

static int
cmd_record_run(const struct vg_record_way *ops, void *way, struct vg_record_context *context,
               vg_record_vms *vms, int64_t begin_ns, int64_t duration_ns, GError **err)
{
    int64_t now_ns = begin_ns;
    int more = 0;

    while (now_ns < begin_ns + duration_ns) {
        int64_t left_ms = (begin_ns + duration_ns - now_ns) / VG_NS_PER_MS;
        if (vg_record_signalled(context, more ? 0 : (int)MIN(left_ms + 1, TICK_MS)))
            return 0;
        more = ops->tick ? ops->tick(way, context, err) : 0;
        if (more < 0 || vg_record_dir_check_room(context->dir, VG_RECORD_LEFT_BYTES, err) < 0)
            return -1;
        now_ns = vg_clock_monotonic_ns();
        vg_record_vms_look(vms, now_ns);
    }
    return 0;
}

/* Reads the recording as `analyze` does, to count its events and to check that it is readable. A
 * signal ends only the counting. */
static int
count(struct vg_record_context *context, struct answer *answer, GError **err)
{
    const char *const paths[] = {answer->trace};
    g_autoptr(GPtrArray) recordings = vg_recordings_open(paths, 1, NULL, err);
    struct vg_event event;
    uint64_t lost = 0;
    int64_t events = 0;
    int status = 1;

    for (unsigned int i = 0; recordings && i < recordings->len; i++) {
        vg_recording *recording = recordings->pdata[i];
        for (uint64_t n = 1; (status = vg_recording_next(recording, &event, err)) == 1; n++) {
            lost += event.type == VG_EVENT_LOST ? event.lost.events : 0;
            if (n % COUNT_CHUNK == 0 && vg_record_signalled(context, 0))
                return 0;
        }
        events += (int64_t)recording->events;
        if (status == 0 && recording->problems.list->len > 0) {
            const struct vg_trace_problem *problem = recording->problems.list->pdata[0];
            vg_record_note(context, "%s: %s", problem->file, problem->what);
        }
    }
    if (!recordings || status < 0) {
        g_prefix_error(err, "the recording of %s cannot be read: ", answer->way->name);
        return -1;
    }
    answer->events = events;
    answer->lost = MAX(answer->lost, lost);
    return 0;
}

static int
record_with(const struct record_args *args, struct vg_record_context *context, vg_record_dir *dir,
            vg_record_vms *vms, struct answer *answer, GError **err)
{
    vg_record_vms_look(vms, vg_clock_monotonic_ns());
    void *way = cmd_record_start(args, context, dir, answer, err);
    if (!way)
        return -1;
    const int64_t begin_ns = vg_clock_monotonic_ns();
    int status =
        cmd_record_run(answer->way, way, context, vms, begin_ns, args->seconds * VG_NS_PER_S, err);
    answer->recorded_ns = vg_clock_monotonic_ns() - begin_ns;
    if (status == 0)
        status = answer->way->finish(way, context, &answer->lost, err);
    answer->way->free(way);
    if (status < 0)
        return -1;
    answer->trace = g_build_filename(context->dir, answer->way->trace, NULL);
    answer->vm_map = g_build_filename(context->dir, VG_RECORD_VM_MAP, NULL);
    if (vg_record_vms_write(vms, answer->vm_map, context->notes, err) < 0 ||
        count(context, answer, err) < 0)
        return -1;
    vg_record_dir_keep(dir);
    return 0;
}

/* ---- the answer ---- */

static const struct vg_column columns[] = {
    {"RECORDING", "recording", VG_CELL_TEXT, false},
    {"WITH", "with", VG_CELL_TEXT, false},
    {"SECONDS", "recorded_ns", VG_CELL_SECONDS, false},
    {"EVENTS", "events", VG_CELL_COUNT, false},
    {"LOST", "lost", VG_CELL_COUNT, false},
    {"TRACE", "trace", VG_CELL_TEXT, true},
    {"VM MAP", "vm_map", VG_CELL_TEXT, true},
};

static const struct vg_column cmd_record_vm_columns[] = {
    {"VM", "name", VG_CELL_TEXT, false},
    {"PID", "pid", VG_CELL_COUNT, false},
    {"UUID", "uuid", VG_CELL_TEXT, false},
};

/* Quotes a word for a shell if necessary. The caller frees it. */
static char *
shell_word(const char *text)
{
    return text[strspn(text, G_CSET_A_2_Z G_CSET_a_2_z G_CSET_DIGITS "/._-+")] == '\0'
               ? g_strdup(text)
               : g_shell_quote(text);
}

static json_object *
answer_to_json(const struct record_args *args, const struct vg_record_context *context,
               const vg_record_vms *vms, const struct answer *answer)
{
    json_object *doc = json_object_new_object();
    json_object *notes = json_object_new_array();
    g_autofree char *dir = shell_word(context->dir);
    g_autofree char *analyze = g_strdup_printf("vgpuctl analyze %s", dir);

    for (unsigned int i = 0; i < context->notes->len; i++)
        vg_json_append(notes, vg_json_new_string(context->notes->pdata[i]));
    vg_json_add_string(doc, "recording", context->dir);
    vg_json_add_string(doc, "trace", answer->trace);
    vg_json_add_string(doc, "vm_map", answer->vm_map);
    vg_json_add_string(doc, "with", answer->way->name);
    vg_json_add(doc, "not_with", json_object_get(answer->not_with));
    vg_json_add_int64(doc, "asked_ns", args->seconds * VG_NS_PER_S);
    vg_json_add_int64(doc, "recorded_ns", answer->recorded_ns);
    vg_json_add_bool(doc, "interrupted", context->interrupted);
    if (answer->events == VG_NONE)
        vg_json_add(doc, "events", NULL);
    else
        vg_json_add_int64(doc, "events", answer->events);
    vg_json_add_int64(doc, "lost", (int64_t)answer->lost);
    vg_json_add(doc, "vms", vg_record_vms_to_json(vms));
    vg_json_add(doc, "notes", notes);
    vg_json_add_string(doc, "analyze", analyze);
    return doc;
}

/* Prints what the table does not show: why other tracers were not used, and the next command. */
static int
print_rest(json_object *doc, GError **err)
{
    json_object *not_with = vg_output_member(doc, "not_with");
    g_autoptr(GString) text = g_string_new("\n");

    for (size_t i = 0; i < vg_output_length(not_with); i++) {
        json_object *item = json_object_array_get_idx(not_with, i);
        g_string_append_printf(text, "Not with %s: %s\n",
                               json_object_get_string(vg_output_member(item, "name")),
                               json_object_get_string(vg_output_member(item, "reason")));
    }
    g_string_append_printf(text, "To analyse it:\n  %s\n",
                           json_object_get_string(vg_output_member(doc, "analyze")));
    return vg_cli_print(text->str, err);
}

static int
print_answer(const struct record_args *args, json_object *doc, GError **err)
{
    g_autoptr(json_object) rows = json_object_new_array();
    bool is_table = args->format == VG_OUTPUT_TABLE || args->format == VG_OUTPUT_WIDE;

    vg_json_append(rows, json_object_get(doc));
    const struct vg_table tables[] = {
        {NULL, rows, columns, G_N_ELEMENTS(columns), NULL},
        {"VMs", vg_output_member(doc, "vms"), cmd_record_vm_columns,
         G_N_ELEMENTS(cmd_record_vm_columns), NULL},
    };
    if (vg_output_print(args->format, doc, tables, G_N_ELEMENTS(tables), err) < 0)
        return -1;
    return is_table ? print_rest(doc, err) : 0;
}

static void
warn(const struct vg_record_context *context, const struct answer *answer)
{
    if (context->interrupted)
        vg_cli_warn("interrupted; the recording of %.1f seconds is kept",
                    (double)answer->recorded_ns / 1e9);
    if (answer->lost > 0)
        vg_cli_warn("%" G_GUINT64_FORMAT
                    " events were lost because the host was too busy; figures from those moments "
                    "are unreliable",
                    answer->lost);
    for (unsigned int i = 0; i < context->notes->len; i++)
        vg_cli_warn("%s", (const char *)context->notes->pdata[i]);
}

/* ---- the command ---- */

static int
block_signals(GError **err)
{
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    /* If a child has exited, a write to it must fail with an error instead. */
    signal(SIGPIPE, SIG_IGN);
    int fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd >= 0 ? fd : vg_error_errno(err, errno, "cannot set up signal handling");
}

static int
record(const struct record_args *args, GError **err)
{
    struct answer answer = {.events = VG_NONE};
    struct vg_record_context context = {.signal_fd = block_signals(err)};
    g_autoptr(vg_record_dir) dir = NULL;
    int status = -1;

    if (context.signal_fd < 0)
        return -1;
    context.notes = g_ptr_array_new_with_free_func(g_free);
    answer.not_with = json_object_new_array();
    g_autoptr(vg_record_vms) vms = vg_record_vms_new("/proc");
    /* If root records, only root can read the files created from now on. */
    if (geteuid() == 0)
        umask(077);
    dir = vg_record_dir_new(args->dir, args->force, err);
    if (dir) {
        context.dir = vg_record_dir_path(dir);
        status = record_with(args, &context, dir, vms, &answer, err);
    }
    if (status == 0) {
        g_autoptr(json_object) doc = answer_to_json(args, &context, vms, &answer);
        warn(&context, &answer);
        status = print_answer(args, doc, err);
    }
    json_object_put(answer.not_with);
    g_free(answer.trace);
    g_free(answer.vm_map);
    g_ptr_array_unref(context.notes);
    close(context.signal_fd);
    return status;
}

int
vg_cmd_record(int argc, char **argv)
{
    static const struct argp argp = {
        .options = options,
        .parser = cmd_record_parse,
        .args_doc = "SECONDS",
        .doc = "Records the events that `vgpuctl analyze` needs, and the list of VMs, for "
               "SECONDS.\vThis requires root. LTTng disturbs the host least, followed by perf; "
               "tracefs needs only the kernel. A signal ends the recording early, but does not "
               "discard it.",
    };
    struct record_args args = {.format = VG_OUTPUT_TABLE};
    g_autoptr(GError) error = NULL;

    argp_parse(&argp, argc, argv, 0, NULL, &args);
    record(&args, &error);
    return error ? vg_cli_fail(error) : VG_EXIT_OK;
}
