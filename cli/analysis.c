/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/analysis.h"

#include "base/error.h"
#include "model/cpu-ledger.h"
#include "trace/vm-map.h"

/* A silence of more windows than a day of seconds has becomes one long window. */
#define SILENT_WINDOWS_MAX 86400

/* How many events pass between two looks at the clock for the progress line. */
#define EVENTS_PER_PROGRESS 65536

struct run {
    const struct vg_analysis_options *options;
    struct vg_analysis *analysis;
    vg_cpu_ledger *ledger;
    bool begun;          /* the analysed part has begun */
    bool ended;          /* an event beyond its end was seen */
    int64_t window_end;  /* of the window that is open */
    int64_t first, last; /* times of the events seen */
    uint64_t events;
    uint64_t part_events; /* in the analysed part; losses are none */
    bool cpu_seen[VG_CPU_LIMIT];
};

static int
close_window(struct run *run, int64_t end_ns, GError **err)
{
    const struct vg_analysis_options *options = run->options;
    struct vg_window window;
    int status = 0;

    vg_cpu_ledger_close_window(run->ledger, end_ns, options->tasks, &window);
    vg_engine_step(run->analysis->engine, &window, options->host);
    if (options->on_window)
        status = options->on_window(options->data, run->analysis->recording, &window, err);
    vg_window_clear(&window);
    return status;
}

/* Closes the windows that end before t. */
static int
advance_to(struct run *run, int64_t t_ns, GError **err)
{
    int64_t window_ns = run->options->window_ns;

    if (t_ns <= run->window_end)
        return 0;
    int64_t whole = (t_ns - run->window_end - 1) / window_ns;
    if (whole > SILENT_WINDOWS_MAX)
        run->window_end += whole * window_ns;
    while (run->window_end < t_ns) {
        if (close_window(run, run->window_end, err) < 0)
            return -1;
        run->window_end += window_ns;
    }
    return 0;
}

static void
begin_part(struct run *run, int64_t t_ns)
{
    vg_cpu_ledger_begin(run->ledger, t_ns);
    run->begun = true;
    run->window_end = t_ns + run->options->window_ns;
}

/* Places the event in the analysed part; false if it lies beyond. */
static int
place(struct run *run, int64_t t_ns, bool *ret_inside, GError **err)
{
    const struct vg_analysis_options *options = run->options;

    *ret_inside = true;
    if (run->events == 0)
        run->first = t_ns;
    if (options->has_end && t_ns > options->end_ns) {
        run->ended = true;
        *ret_inside = false;
        if (run->begun || !options->has_begin)
            return 0;
        begin_part(run, MIN(options->begin_ns, options->end_ns));
        return 0;
    }
    if (!run->begun && (!options->has_begin || t_ns > options->begin_ns))
        begin_part(run, options->has_begin ? MAX(options->begin_ns, run->first) : t_ns);
    return run->begun ? advance_to(run, t_ns, err) : 0;
}

static int
feed_all(struct run *run, GError **err)
{
    vg_recording *recording = run->analysis->recording;
    struct vg_event event;
    bool inside;
    int status;

    while ((status = vg_recording_next(recording, &event, err)) == 1) {
        if (place(run, event.ts_ns, &inside, err) < 0)
            return -1;
        if (!inside)
            return 0;
        vg_cpu_ledger_use_waking(run->ledger, !recording->has_wakeup);
        vg_cpu_ledger_feed(run->ledger, &event);
        run->last = event.ts_ns;
        run->part_events += run->begun && event.type != VG_EVENT_LOST;
        if (event.cpu >= 0)
            run->cpu_seen[event.cpu] = true;
        if (++run->events % EVENTS_PER_PROGRESS == 0)
            vg_progress_update(run->options->progress, vg_recording_progress(recording));
    }
    return status;
}

static int
finish(struct run *run, GError **err)
{
    const struct vg_analysis_options *options = run->options;
    const char *name = run->analysis->recording->name;

    if (run->events == 0) {
        const GPtrArray *problems = run->analysis->recording->problems.list;
        const struct vg_trace_problem *problem =
            problems->len > 0 ? g_ptr_array_index(problems, 0) : NULL;
        return vg_error(err, VG_E_INVALID, "'%s' has no events%s%s%s", name,
                        run->ended ? " before --end" : "", problem ? ": " : "",
                        problem ? problem->what : "");
    }
    if (!run->begun)
        return vg_error(err, VG_E_INVALID, "'%s' ends at %" G_GINT64_FORMAT " ns, before --begin",
                        name, run->last);
    if (!run->analysis->recording->has_switch)
        vg_recording_problem(
            run->analysis->recording, name, 0,
            "no sched_switch was found: who ran and who waited is not known; is it "
            "recorded, and is the trace of a form that vgpuctl(1) names?");
    int64_t end = run->ended ? options->end_ns : run->last;
    if (advance_to(run, end, err) < 0 || close_window(run, end, err) < 0)
        return -1;
    vg_cpu_ledger_read_period(run->ledger, end, options->tasks, &run->analysis->period);
    run->analysis->events = options->has_begin || options->has_end
                                ? run->part_events
                                : run->analysis->recording->events;
    for (size_t i = 0; i < VG_CPU_LIMIT; i++)
        run->analysis->cpus += run->cpu_seen[i];
    return 0;
}

struct vg_analysis *
vg_analysis_run(vg_recording *take_recording, const struct vg_analysis_options *options,
                GError **err)
{
    g_autofree struct run *run = g_new0(struct run, 1);
    struct vg_analysis *analysis = g_new0(struct vg_analysis, 1);
    int status = 0;

    analysis->recording = take_recording;
    analysis->topology = vg_topology_new();
    analysis->engine = vg_engine_new(options->config, VG_ENGINE_MEAN);
    run->options = options;
    run->analysis = analysis;
    run->ledger = vg_cpu_ledger_new(analysis->topology);
    vg_cpu_ledger_keep_tasks(run->ledger, options->tasks);
    if (options->vm_map_text)
        status = vg_vm_map_apply(options->vm_map_name, options->vm_map_text, options->vm_map_size,
                                 analysis->topology, err);
    if (status == 0)
        status = feed_all(run, err);
    vg_progress_end(options->progress);
    if (status == 0)
        status = finish(run, err);
    vg_cpu_ledger_free(run->ledger);
    if (status == 0)
        return analysis;
    vg_analysis_free(analysis);
    return NULL;
}

void
vg_analysis_free(struct vg_analysis *analysis)
{
    if (!analysis)
        return;
    vg_window_clear(&analysis->period);
    vg_engine_free(analysis->engine);
    vg_topology_free(analysis->topology);
    vg_recording_free(analysis->recording);
    g_free(analysis);
}
