/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/analysis.h"

#include "host/vm-map.h"

struct run {
    const struct vg_analysis_options *options;
    const vg_recording *recording;
};

static bool
analysis_on_tick(void *data)
{
    const struct run *run = data;

    vg_progress_update(run->options->progress, vg_recording_progress(run->recording));
    return !run->options->enough || !*run->options->enough;
}

static void
analysis_report_request(void *data, const struct vg_gpu_life *life)
{
    const struct run *run = data;

    run->options->on_request(run->options->data, life);
}

static int
take_windows(vg_window_reader *reader, struct vg_analysis *analysis,
             const struct vg_analysis_options *options, GError **err)
{
    struct vg_window window;
    int status;

    while ((status = vg_window_reader_next(reader, &window, err)) == 1) {
        vg_engine_step(analysis->engine, &window, options->host);
        if (options->on_window)
            status = options->on_window(options->data, analysis->recording, &window, err);
        vg_window_clear(&window);
        if (status < 0)
            return -1;
    }
    return status;
}

static int
run_analysis(struct vg_analysis *analysis, const struct vg_analysis_options *options, GError **err)
{
    struct run run = {.options = options, .recording = analysis->recording};
    const struct vg_window_read_options read = {
        .has_begin = options->has_begin,
        .has_end = options->has_end,
        .begin_ns = options->begin_ns,
        .end_ns = options->end_ns,
        .window_ns = options->window_ns,
        .tasks = options->tasks,
        .tick = analysis_on_tick,
        .on_request = options->on_request ? analysis_report_request : NULL,
        .data = &run,
        .watch = options->watch,
    };

    if (options->vm_map_text && vg_vm_map_apply(options->vm_map_name, options->vm_map_text,
                                                options->vm_map_size, analysis->topology, err) < 0)
        return -1;
    vg_recording_name_vms(analysis->recording, analysis->topology);
    g_autoptr(vg_window_reader) reader =
        vg_window_reader_new(analysis->recording, analysis->topology, &read);
    int status = take_windows(reader, analysis, options, err);
    vg_progress_end(options->progress);
    if (status < 0)
        return -1;
    vg_window_reader_read_period(reader, &analysis->period);
    analysis->types = vg_window_reader_types(reader);
    g_array_unref(analysis->absent_cpus);
    analysis->absent_cpus = vg_window_reader_absent_cpus(reader);
    analysis->cpus = vg_window_reader_cpus(reader);
    analysis->host_cpus = vg_window_reader_host_cpus(reader);
    analysis->events = vg_window_reader_events(reader);
    return 0;
}

struct vg_analysis *
vg_analysis_run(vg_recording *take_recording, const struct vg_analysis_options *options,
                GError **err)
{
    struct vg_analysis *analysis = g_new0(struct vg_analysis, 1);

    analysis->recording = take_recording;
    analysis->topology = vg_topology_new();
    analysis->absent_cpus = g_array_new(FALSE, FALSE, sizeof(int32_t));
    analysis->engine = vg_engine_new(options->config, VG_ENGINE_MEAN);
    if (run_analysis(analysis, options, err) == 0)
        return analysis;
    vg_analysis_free(analysis);
    return NULL;
}

bool
vg_analysis_misses(const struct vg_analysis *analysis, const struct vg_adapter_need *need)
{
    return !(analysis->types & need->types) && analysis->types & need->with;
}

void
vg_analysis_free(struct vg_analysis *analysis)
{
    if (!analysis)
        return;
    vg_window_clear(&analysis->period);
    g_array_unref(analysis->absent_cpus);
    vg_engine_free(analysis->engine);
    vg_topology_free(analysis->topology);
    vg_recording_free(analysis->recording);
    g_free(analysis);
}
