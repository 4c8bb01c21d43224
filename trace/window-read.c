/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "trace/window-read.h"

#include <string.h>

#include "base/error.h"
#include "ledger/cpu-ledger.h"
#include "ledger/gpu-ledger.h"
#include "trace/absent-cpus.h"
#include "trace/late-cpus.h"
#include "trace/needs.h"

/* Fewer wrong heads than this are taken for damage. */
#define WRONG_HEADS_MIN 5

/* The number of events between two ticks. */
#define EVENTS_PER_TICK 65536

struct vg_window_reader {
    vg_recording *recording;
    const vg_topology *topology;
    vg_cpu_ledger *ledger;
    vg_gpu_ledger *gpu_ledger;
    struct vg_window_read_options options;
    bool begun;            /* the part has started */
    bool begin_is_default; /* options.begin_ns is when all CPUs are recorded */
    bool beyond;           /* an event after its end was seen */
    bool finished;         /* the last window was returned */
    bool pending;          /* `event` has been read but not fed yet */
    bool at_end;           /* there are no more events */
    struct vg_event event; /* the next event */
    int64_t window_end;    /* of the open window */
    int64_t part_end;      /* valid once at_end */
    int64_t first, last;   /* times of the events so far */
    uint64_t events;
    uint64_t part_events; /* number of events, without losses */
    uint64_t told_events; /* those in closed windows */
    bool cpu_seen[VG_CPU_LIMIT];
    uint32_t types_seen;  /* VG_SEEN_... */
    bool lost_any;        /* a loss was reported */
    uint64_t heads;       /* sched_switch records whose head names a thread */
    uint64_t wrong_heads; /* those that name a different thread than the record */
    uint64_t zero_heads;  /* those that name no thread: it is outside the PID namespace */
    vg_absent_cpus *absent;
};

vg_window_reader *
vg_window_reader_new(vg_recording *recording, vg_topology *topology,
                     const struct vg_window_read_options *options)
{
    vg_window_reader *reader = g_new0(vg_window_reader, 1);

    reader->recording = recording;
    reader->topology = topology;
    reader->absent = vg_absent_cpus_new();
    reader->options = *options;
    reader->ledger = vg_cpu_ledger_new(topology);
    vg_cpu_ledger_keep_tasks(reader->ledger, options->tasks);
    /* A grid continues for days. */
    vg_cpu_ledger_windows_only(reader->ledger, options->on_grid);
    reader->gpu_ledger = vg_gpu_ledger_new(topology, recording->names);
    vg_gpu_ledger_windows_only(reader->gpu_ledger, options->on_grid);
    vg_gpu_ledger_declare_ops(reader->gpu_ledger, recording->gpu_ops);
    vg_gpu_ledger_keep_requests(reader->gpu_ledger, options->gpu_requests);
    vg_gpu_ledger_watch(reader->gpu_ledger, options->on_request, options->data);
    return reader;
}

void
vg_window_reader_free(vg_window_reader *reader)
{
    if (!reader)
        return;
    vg_gpu_ledger_free(reader->gpu_ledger);
    vg_cpu_ledger_free(reader->ledger);
    vg_absent_cpus_free(reader->absent);
    g_free(reader);
}

/* Returns when the window that starts at this time ends. */
static int64_t
window_read_end_after(const vg_window_reader *reader, int64_t t_ns)
{
    const struct vg_window_read_options *options = &reader->options;

    return options->grid_end ? options->grid_end(options->data, t_ns) : t_ns + options->window_ns;
}

static void
begin_part(vg_window_reader *reader, int64_t t_ns)
{
    vg_cpu_ledger_begin(reader->ledger, t_ns);
    vg_gpu_ledger_begin(reader->gpu_ledger, t_ns);
    reader->begun = true;
    reader->window_end = window_read_end_after(reader, t_ns);
    const struct vg_window_watch *watch = reader->options.watch;
    if (!watch)
        return;
    if (watch->on_begin)
        watch->on_begin(watch->data, reader, t_ns);
    vg_cpu_ledger_watch(reader->ledger, watch->on_cpu, watch->data);
    vg_gpu_ledger_watch_stages(reader->gpu_ledger, watch->on_gpu, watch->data);
}

static void
tell_time(const vg_window_reader *reader, int64_t t_ns)
{
    const struct vg_window_watch *watch = reader->options.watch;

    if (watch && watch->on_time && reader->begun)
        watch->on_time(watch->data, t_ns);
}

/* Combines a long silence before t into one window. */
static void
skip_silence(vg_window_reader *reader, int64_t t_ns)
{
    int64_t window_ns = reader->options.window_ns;

    if (!reader->begun || t_ns <= reader->window_end)
        return;
    int64_t whole = (t_ns - reader->window_end - 1) / window_ns;
    if (whole <= VG_SILENT_WINDOWS_MAX)
        return;
    reader->window_end += whole * window_ns;
    if (reader->options.grid_end)
        reader->window_end = window_read_end_after(reader, reader->window_end - window_ns / 2);
}

/* Finds the start of the first complete window. */
static void
find_grid(vg_window_reader *reader, int64_t t_ns)
{
    struct vg_window_read_options *options = &reader->options;

    if (!options->on_grid || options->has_begin)
        return;
    options->has_begin = true;
    if (options->grid_end) {
        options->begin_ns = options->grid_end(options->data, t_ns - 1);
        return;
    }
    int64_t over_ns = ((t_ns % options->window_ns) + options->window_ns) % options->window_ns;
    options->begin_ns = over_ns == 0 ? t_ns : t_ns - over_ns + options->window_ns;
}

/* Determines the start if records of some CPUs start late. By default, the part is what all CPUs
 * have, unless that excludes nearly everything. */
static void
window_read_default_begin(vg_window_reader *reader, int64_t t_ns)
{
    struct vg_window_read_options *options = &reader->options;
    const vg_recording *recording = reader->recording;

    if (options->has_begin || options->on_grid ||
        !vg_late_cpus_matter(recording->late, t_ns, recording->length_ns))
        return;
    options->has_begin = reader->begin_is_default = true;
    options->begin_ns = vg_late_cpus_covered_ns(recording->late);
}

/* Places an event that was just read, or the time up to which a live recording is complete. Returns
 * false if it is after the part. */
static bool
place(vg_window_reader *reader, int64_t t_ns)
{
    const struct vg_window_read_options *options = &reader->options;

    find_grid(reader, t_ns);
    if (reader->events == 0) {
        window_read_default_begin(reader, t_ns);
        reader->first = options->on_grid ? options->begin_ns : t_ns;
    }
    if (options->has_end && t_ns > options->end_ns) {
        reader->beyond = true;
        if (!reader->begun && options->has_begin)
            begin_part(reader, MIN(options->begin_ns, options->end_ns));
        return false;
    }
    if (!reader->begun && (!options->has_begin || t_ns > options->begin_ns))
        begin_part(reader, options->has_begin ? MAX(options->begin_ns, reader->first) : t_ns);
    skip_silence(reader, t_ns);
    tell_time(reader, t_ns);
    return true;
}

static void
note_gpu_limits(vg_window_reader *reader)
{
    vg_recording *recording = reader->recording;
    struct vg_gpu_ledger_stats stats;

    vg_gpu_ledger_read_stats(reader->gpu_ledger, &stats);
    if (stats.dropped > 0)
        vg_recording_problem(
            recording, recording->name, VG_NONE,
            "%" G_GUINT64_FORMAT " GPU requests, contexts and memory objects were dropped before "
            "they ended: at most %d, %d and %d are stored",
            stats.dropped, VG_GPU_OPEN_REQUESTS_MAX, VG_GPU_CONTEXTS_MAX, VG_GPU_OBJECTS_MAX);
    if (stats.begun > 0 && stats.done == 0)
        vg_recording_problem(recording, recording->name, 0,
                             "none of the %" G_GUINT64_FORMAT
                             " GPU requests that started has ended; check that their ends were "
                             "recorded in a form that vgpuctl-traces(5) lists%s",
                             stats.begun,
                             stats.lacks_ends ? "; without them, the numbers of completed and open "
                                                "requests and their run times are unknown"
                                              : "");
    if (stats.unattributed > 0)
        vg_recording_problem(recording, recording->name, VG_NONE,
                             "%" G_GUINT64_FORMAT
                             " records of GPU requests are missing from some or all figures: at "
                             "most %d engines and %d GPU users can be distinguished",
                             stats.unattributed, VG_GPU_ENGINES_MAX, VG_GPU_USERS_MAX);
}

/* A few heads may be damaged, and hand-made texts may have the same head on each line. */
static bool
window_read_heads_are_wrong(const vg_window_reader *reader)
{
    return reader->zero_heads > 0 && reader->wrong_heads >= WRONG_HEADS_MIN &&
           reader->wrong_heads * 100 > reader->heads;
}

/* Names a recorder whose numbers for threads are not the host's. */
static void
window_read_note_heads(vg_window_reader *reader)
{
    vg_recording *recording = reader->recording;

    if (!window_read_heads_are_wrong(reader))
        return;
    vg_recording_problem(
        recording, recording->name, VG_NONE,
        "the heads of %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
        " sched_switch records name other threads than the records, as after recording in a "
        "container, so the heads' thread and process IDs are ignored; record outside of containers "
        "or use a VM map with thread IDs",
        reader->wrong_heads, reader->heads);
}

/* Determines the length of the part when nothing more can be read. */
static int
end_part(vg_window_reader *reader, GError **err)
{
    vg_recording *recording = reader->recording;

    vg_absent_cpus_report(reader->absent, recording);
    if (reader->options.on_grid)
        return 0;
    if (reader->events == 0) {
        const GPtrArray *problems = recording->problems.list;
        const struct vg_trace_problem *problem =
            problems->len > 0 ? g_ptr_array_index(problems, 0) : NULL;
        return vg_error(err, VG_E_INVALID, "'%s' has no events%s%s%s", recording->name,
                        reader->beyond ? " before --end" : "", problem ? ": " : "",
                        problem ? problem->what : "");
    }
    /* There may be nothing after the first record of the CPU that starts last. */
    if (!reader->begun && reader->begin_is_default)
        begin_part(reader, reader->last);
    if (!reader->begun)
        return vg_error(err, VG_E_INVALID, "'%s' ends at %" G_GINT64_FORMAT " ns, before --begin",
                        recording->name, reader->last);
    if (!recording->has_switch && !recording->has_gpu)
        vg_recording_problem(
            recording, recording->name, 0,
            "no sched_switch was found, so run and wait times are unknown; check that it was "
            "recorded in a form that vgpuctl-traces(5) lists");
    note_gpu_limits(reader);
    window_read_note_heads(reader);
    reader->part_end = reader->beyond ? reader->options.end_ns : reader->last;
    skip_silence(reader, reader->part_end);
    tell_time(reader, reader->part_end);
    return 0;
}

/* Reads the next event. Sets at_end at the end of the part. Returns VG_RECORDING_AGAIN if there is
 * none now and no window can be closed. */
static int
read_event(vg_window_reader *reader, GError **err)
{
    bool stopped = false;

    if (reader->options.tick && reader->events % EVENTS_PER_TICK == EVENTS_PER_TICK - 1)
        stopped = !reader->options.tick(reader->options.data);
    int status = stopped ? 0 : vg_recording_next(reader->recording, &reader->event, err);
    if (status < 0)
        return -1;
    if (status == VG_RECORDING_AGAIN) {
        int64_t passed_ns = reader->recording->passed_ns;
        if (passed_ns == INT64_MIN)
            return status;
        place(reader, passed_ns);
        return reader->begun && reader->window_end < passed_ns ? 0 : status;
    }
    if (status == 1 && place(reader, reader->event.ts_ns)) {
        reader->pending = true;
        return 0;
    }
    reader->at_end = true;
    return end_part(reader, err);
}

/* A thread records its own sched_switch. If the heads of such records name other threads, the
 * recorder ran in a PID namespace and wrote its numbers for threads, but the fields of events have
 * the host's. Removes thread and process from the heads of all events then. */
static void
window_read_check_head(vg_window_reader *reader, struct vg_event *event)
{
    if (event->type == VG_EVENT_SCHED_SWITCH && event->tid >= 0) {
        reader->heads++;
        reader->wrong_heads += event->tid != event->sched_switch.prev_tid;
        reader->zero_heads += event->tid == 0 && event->sched_switch.prev_tid != 0;
    }
    if (window_read_heads_are_wrong(reader))
        event->tid = event->pid = VG_NONE;
}

static void
feed_event(vg_window_reader *reader)
{
    struct vg_event *event = &reader->event;

    window_read_check_head(reader, event);
    vg_cpu_ledger_use_waking(reader->ledger, !reader->recording->has_wakeup);
    /* Without switches, the thread of a GPU event does not show what had the CPU before or
     * after. */
    if (event->type != VG_EVENT_GPU || reader->recording->has_switch)
        vg_cpu_ledger_feed(reader->ledger, event);
    vg_gpu_ledger_feed(reader->gpu_ledger, event);
    reader->pending = false;
    reader->last = event->ts_ns;
    reader->events++;
    reader->part_events += reader->begun && event->type != VG_EVENT_LOST;
    reader->lost_any |= event->type == VG_EVENT_LOST;
    reader->types_seen |= VG_SEEN_TYPE(event->type);
    if (event->type == VG_EVENT_GPU)
        reader->types_seen |= VG_SEEN_GPU(event->gpu.op);
    vg_absent_cpus_note(reader->absent, event);
    if (event->cpu >= 0 && event->type != VG_EVENT_LOST)
        reader->cpu_seen[event->cpu] = true;
}

static void
window_read_lack_gpus(GArray *gpus)
{
    for (guint i = 0; i < gpus->len; i++)
        g_array_index(gpus, struct vg_gpu_sample, i).lacks |=
            VG_GPU_NO_WORK | VG_GPU_NO_REQUESTS | VG_GPU_NO_DETAILS;
}

/* Without any end of a request, it is unknown how long requests waited and ran. */
static void
window_read_lack_ends(struct vg_window *window)
{
    window_read_lack_gpus(window->gpus);
    for (guint i = 0; i < window->gpu_processes->len; i++)
        g_array_index(window->gpu_processes, struct vg_gpu_process_sample, i).gpu.lacks |=
            VG_GPU_NO_WORK | VG_GPU_NO_REQUESTS | VG_GPU_NO_DETAILS;
    for (guint i = 0; i < window->vms->len; i++) {
        struct vg_vm_sample *vm = &g_array_index(window->vms, struct vg_vm_sample, i);
        window_read_lack_gpus(vm->gpus);
        vm->gpu_known = false;
    }
}

/* Returns whether missing wakeups are a reason to doubt figures. CPUs without records and damaged
 * stream files have their own messages. The lines of a text that cannot be read do not hide a CPU.
 */
static bool
window_read_judges_wakeups(const vg_window_reader *reader)
{
    const GPtrArray *problems = reader->recording->problems.list;

    for (guint i = 0; i < problems->len; i++) {
        const struct vg_trace_problem *problem = problems->pdata[i];
        if (problem->offset != VG_NONE && strcmp(problem->file, reader->recording->name) != 0)
            return false;
    }
    return !vg_absent_cpus_any(reader->absent, reader->recording, reader->at_end);
}

/* Returns what is unknown because records are missing without a notice. */
static unsigned int
window_read_unseen(const vg_window_reader *reader)
{
    const bool judges_wakeups = window_read_judges_wakeups(reader);
    struct vg_cpu_sight sight;

    vg_cpu_ledger_read_sight(reader->ledger, &sight);
    return (judges_wakeups && vg_cpu_sleeps_miss_wakeups(&sight.sleeps) ? VG_CPU_NO_WAKEUPS : 0) |
           (vg_cpu_sight_is_partial(&sight) ? VG_CPU_NO_SWITCHES : 0);
}

/* Sets what is unknown. The absence of ends is only known at the end. */
static void
window_read_set_lacks(const vg_window_reader *reader, struct vg_window *window)
{
    window->lacks = vg_needs_lacks(reader->types_seen) | window_read_unseen(reader);
    if (!reader->at_end)
        window->lacks &= ~(unsigned int)VG_CPU_NO_GPU_ENDS;
    if (vg_absent_cpus_any(reader->absent, reader->recording, reader->at_end))
        window->lacks |= VG_CPU_ABSENT_CPUS;
    for (guint i = 0; i < window->vms->len; i++)
        g_array_index(window->vms, struct vg_vm_sample, i).lacks |= window->lacks;
    if (window->lacks & VG_CPU_NO_GPU_ENDS)
        window_read_lack_ends(window);
}

static void
window_read_set_gpus(GArray *gpus, double confidence)
{
    for (guint i = 0; i < gpus->len; i++)
        g_array_index(gpus, struct vg_gpu_sample, i).confidence = confidence;
}

/* Sets the confidence of a window. events is the number of events recorded in it. */
static void
window_read_set_confidence(struct vg_window *window, uint64_t events)
{
    double seen = (double)events, lost = (double)window->lost_events;
    double confidence = lost > 0 ? seen / (seen + lost) : 1;

    window->confidence = confidence;
    window_read_set_gpus(window->gpus, confidence);
    for (guint i = 0; i < window->gpu_processes->len; i++)
        g_array_index(window->gpu_processes, struct vg_gpu_process_sample, i).gpu.confidence =
            confidence;
    for (guint i = 0; i < window->vms->len; i++)
        window_read_set_gpus(g_array_index(window->vms, struct vg_vm_sample, i).gpus, confidence);
}

/* Closes the open window at t. */
static int
window_read_close_window(vg_window_reader *reader, int64_t t_ns, struct vg_window *ret)
{
    vg_cpu_ledger_judge_wakeups(reader->ledger, window_read_judges_wakeups(reader));
    vg_cpu_ledger_close_window(reader->ledger, t_ns, reader->options.tasks, ret);
    vg_gpu_ledger_close_window(reader->gpu_ledger, t_ns, ret);
    window_read_set_confidence(ret, reader->part_events - reader->told_events);
    window_read_set_lacks(reader, ret);
    reader->told_events = reader->part_events;
    reader->window_end = window_read_end_after(reader, t_ns);
    return 1;
}

/* Names the records that are missing without a notice. window is the last one. */
static void
window_read_note_unseen(vg_window_reader *reader, const struct vg_window *window)
{
    vg_recording *recording = reader->recording;
    const unsigned int unseen = window_read_unseen(reader);
    /* Other messages name events that are missing completely. */
    const unsigned int named = vg_needs_lacks(reader->types_seen);
    struct vg_cpu_sight sight;
    const bool is_text = recording->clock_offset_ns == 0; /* CTF states its clock's offset */
    guint vms = 0;

    for (guint i = 0; i < window->vms->len; i++)
        vms += (g_array_index(window->vms, struct vg_vm_sample, i).lacks & VG_CPU_NO_WAKEUPS) != 0;
    vg_cpu_ledger_read_sight(reader->ledger, &sight);
    if (unseen & VG_CPU_NO_SWITCHES) {
        g_autofree char *figures = vg_needs_figures_text(VG_CPU_NO_SWITCHES);
        vg_recording_problem(
            recording, recording->name, VG_NONE,
            "%" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
            " switches are to threads that never leave a CPU, so only some threads "
            "were recorded, and for VMs, %s; record all (perf record -a)",
            sight.never_left, sight.switches, figures);
    } else if ((unseen & VG_CPU_NO_WAKEUPS || vms > 0) && !(named & VG_CPU_NO_WAKEUPS)) {
        g_autofree char *figures = vg_needs_figures_text(VG_CPU_NO_WAKEUPS);
        vg_recording_problem(recording, recording->name, VG_NONE,
                             "%" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
                             " sleeps end without a wakeup, because records are missing (of "
                             "interrupts, by a filter, or lost without a notice%s), so for %s, %s",
                             sight.sleeps.unwoken, sight.sleeps.unwoken + sight.sleeps.woken,
                             is_text && !reader->lost_any ? "; perf script needs --show-lost-events"
                                                          : "",
                             unseen & VG_CPU_NO_WAKEUPS ? "VMs" : "some VMs", figures);
    }
}

/* Returns up to when everything that belongs to the open window is known. */
static int64_t
known_ns(const vg_window_reader *reader)
{
    if (reader->pending)
        return reader->event.ts_ns;
    return reader->at_end && !reader->options.on_grid ? reader->part_end
                                                      : reader->recording->passed_ns;
}

int
vg_window_reader_next(vg_window_reader *reader, struct vg_window *ret, GError **err)
{
    while (!reader->finished) {
        if (reader->begun && reader->window_end < known_ns(reader))
            return window_read_close_window(reader, reader->window_end, ret);
        if (reader->at_end) {
            reader->finished = true;
            if (reader->options.on_grid)
                return 0;
            vg_gpu_ledger_end(reader->gpu_ledger, reader->part_end,
                              reader->beyond || !reader->recording->is_cut);
            window_read_close_window(reader, reader->part_end, ret);
            window_read_note_unseen(reader, ret);
            return 1;
        }
        if (reader->pending)
            feed_event(reader);
        int status = read_event(reader, err);
        if (status != 0)
            return status;
    }
    return 0;
}

void
vg_window_reader_read_period(vg_window_reader *reader, struct vg_window *ret)
{
    vg_cpu_ledger_judge_wakeups(reader->ledger, window_read_judges_wakeups(reader));
    vg_cpu_ledger_read_period(reader->ledger, reader->part_end, reader->options.tasks, ret);
    vg_gpu_ledger_read_period(reader->gpu_ledger, reader->part_end, ret);
    window_read_set_confidence(ret, vg_window_reader_events(reader));
    window_read_set_lacks(reader, ret);
}

void
vg_window_reader_peek(const vg_window_reader *reader, int64_t t_ns, struct vg_window *ret)
{
    vg_cpu_ledger_peek(reader->ledger, t_ns, ret);
}

const vg_topology *
vg_window_reader_topology(const vg_window_reader *reader)
{
    return reader->topology;
}

int32_t
vg_window_reader_cpus(const vg_window_reader *reader)
{
    int32_t cpus = 0;

    for (size_t i = 0; i < VG_CPU_LIMIT; i++)
        cpus += reader->cpu_seen[i];
    return cpus;
}

int32_t
vg_window_reader_host_cpus(const vg_window_reader *reader)
{
    return MAX(vg_window_reader_cpus(reader), reader->recording->host_cpus);
}

GArray *
vg_window_reader_absent_cpus(const vg_window_reader *reader)
{
    return vg_absent_cpus_list(reader->absent, reader->recording);
}

uint32_t
vg_window_reader_types(const vg_window_reader *reader)
{
    return reader->types_seen;
}

uint64_t
vg_window_reader_events(const vg_window_reader *reader)
{
    return reader->options.has_begin || reader->options.has_end ? reader->part_events
                                                                : reader->recording->events;
}
