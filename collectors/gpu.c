/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/gpu.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "collectors/gpu-window.h"
#include "host/proc-scan.h"

/* The time between two heartbeats. */
#define BEAT_NS VG_NS_PER_S
/* How much later than other collectors' windows these windows are reported: sources may wait for
 * answers. */
#define LAG_NS (VG_GPU_AWAITS_NS + VG_NS_PER_S)
/* The minimum time between two samples that a source's descriptor causes. */
#define DRAIN_NS VG_NS_PER_MS

struct gpu {
    struct vg_collector base; /* first */
    int64_t window_ns;
    vg_window_grid *grid;
    int64_t sample_ns;
    vg_proc_scan *scan;
    vg_gpu_source *sources[VG_GPU_SOURCES_MAX];
    bool ready[VG_GPU_SOURCES_MAX];
    unsigned n_sources;
    int wake_fd;
    int64_t sampled_ns; /* time of the last sample of all sources */
    int64_t drained_ns;
    int64_t cpu_ns; /* of the thread, at the end of the last window */
    bool was_late;  /* the last window ended before it could be read */
    bool is_late;   /* this window and the one before ended late */
    struct vg_reported_state reported;
};

/* ---- what it says ---- */

static void
gpu_report_health(struct gpu *gpu, const struct vg_report_sink *sink, const char *trouble)
{
    g_autoptr(GString) text = g_string_new(trouble);
    GPtrArray *states = vg_source_states_new();
    bool less = trouble != NULL || gpu->is_late;

    if (gpu->is_late)
        g_string_append(text,
                        "windows are longer than configured because reading takes longer than a "
                        "window");

    for (unsigned i = 0; i < gpu->n_sources; i++) {
        const vg_gpu_source *source = gpu->sources[i];
        if (text->len > 0)
            g_string_append(text, "; ");
        g_string_append_printf(text, "%s: ", source->ops->name);
        const size_t at = text->len;
        const bool lacks = source->ops->describe(source, text);
        vg_source_states_add(states, source->ops->name,
                             !gpu->ready[i] ? VG_SOURCE_ABSENT
                             : lacks        ? VG_SOURCE_LESS
                                            : VG_SOURCE_USED,
                             source->trouble, g_strdup(text->str + at));
        less = lacks || less;
    }
    vg_report_put_sources(&gpu->reported, sink, gpu->base.ops->name,
                          less ? VG_COLLECTOR_DEGRADED : VG_COLLECTOR_OK, text->str, states);
}

/* Returns the confidence of the source that lost the most. */
static double
gpu_least_confidence(const struct vg_window *window)
{
    double least = 1;

    for (unsigned i = 0; i < window->gpus->len; i++)
        least = MIN(least, g_array_index(window->gpus, struct vg_gpu_sample, i).confidence);
    return least;
}

static void
gpu_describe(struct gpu *gpu, const struct vg_window *window, struct vg_provenance *provenance)
{
    const char *name = gpu->base.ops->name;
    int64_t cpu_ns = vg_clock_thread_cpu_ns();

    g_strlcpy(provenance->source, name, sizeof(provenance->source));
    g_strlcpy(provenance->series, "live", sizeof(provenance->series));
    provenance->confidence = gpu_least_confidence(window);
    provenance->besides = true;
    for (unsigned i = 0; i < gpu->n_sources; i++) {
        if (!gpu->ready[i])
            continue;
        if (provenance->gpu_source[0])
            g_strlcat(provenance->gpu_source, ", ", sizeof(provenance->gpu_source));
        g_strlcat(provenance->gpu_source, gpu->sources[i]->ops->name,
                  sizeof(provenance->gpu_source));
    }
    for (unsigned i = 0; i < VG_MEASURE_MAX; i++)
        vg_provenance_lacks(provenance, i, "no source measures this host's CPUs");
    provenance->cost_ns = cpu_ns - gpu->cpu_ns;
    int64_t missed_ns = 0;
    for (unsigned i = 0; i < gpu->n_sources; i++) {
        if (gpu->ready[i] && gpu->sources[i]->ops->spent_ns)
            provenance->cost_ns += gpu->sources[i]->ops->spent_ns(gpu->sources[i]);
        if (gpu->ready[i] && gpu->sources[i]->ops->missed_ns)
            missed_ns = MAX(missed_ns, gpu->sources[i]->ops->missed_ns(gpu->sources[i]));
    }
    provenance->gpu_missed = (uint64_t)((missed_ns + gpu->window_ns / 2) / MAX(gpu->window_ns, 1));
    gpu->cpu_ns = cpu_ns;
}

/* ---- a window ---- */

static void
gpu_sample(struct gpu *gpu, vg_thread *self)
{
    for (unsigned i = 0; i < gpu->n_sources; i++) {
        if (gpu->ready[i] && gpu->sources[i]->ops->sample)
            gpu->sources[i]->ops->sample(gpu->sources[i], vg_clock_monotonic_ns());
        vg_thread_beat(self);
    }
    gpu->sampled_ns = vg_clock_monotonic_ns();
}

/* Finds the sources that may see something now, and makes them query others. */
static void
find_ready_sources(struct gpu *gpu, vg_thread *self)
{
    for (unsigned i = 0; i < gpu->n_sources; i++) {
        gpu->ready[i] = gpu->sources[i]->ops->ready(gpu->sources[i], vg_clock_monotonic_ns());
        if (gpu->ready[i] && gpu->sources[i]->ops->ask)
            gpu->sources[i]->ops->ask(gpu->sources[i], vg_clock_monotonic_ns());
        vg_thread_beat(self);
    }
}

/* Closes a window. begin_ns 0 means that nothing was read at its start. Returns the begin_ns of the
 * next window. It is the same if the VMs could not be determined, because sources report everything
 * since their last reading. */
static int64_t
gpu_close_window(struct gpu *gpu, vg_thread *self, const struct vg_report_sink *sink,
                 int64_t begin_ns, const struct vg_window_end *end)
{
    g_autoptr(vg_report) report = vg_report_new(VG_REPORT_WINDOW, gpu->base.ops->name);
    g_autoptr(GError) err = NULL;

    vg_window_init(&report->window, false);
    report->window.begin_ns = begin_ns;
    report->window.end_ns = end->at_ns;
    gpu_sample(gpu, self);
    bool any = false;
    for (unsigned i = 0; i < gpu->n_sources; i++)
        any = any || gpu->ready[i];
    if (any && vg_proc_scan_update(gpu->scan, vg_clock_monotonic_ns(), &err) < 0) {
        gpu_report_health(gpu, sink, err->message);
        return begin_ns;
    }
    for (unsigned i = 0; i < gpu->n_sources; i++) {
        if (gpu->ready[i])
            gpu->sources[i]->ops->read(gpu->sources[i], vg_proc_scan_vms(gpu->scan), self,
                                       vg_clock_monotonic_ns(), &report->window);
        vg_thread_beat(self);
    }
    vg_gpu_window_finish(&report->window);
    gpu_report_health(gpu, sink, NULL);
    gpu_describe(gpu, &report->window, &report->provenance);
    report->clock_offset_ns = end->offset_ns;
    if (begin_ns > 0)
        sink->put(sink->data, g_steal_pointer(&report));
    return end->at_ns;
}

/* ---- the thread ---- */

static bool
wants_samples(const struct gpu *gpu)
{
    for (unsigned i = 0; i < gpu->n_sources; i++) {
        if (gpu->ready[i] && gpu->sources[i]->ops->sample)
            return true;
    }
    return false;
}

static int
gpu_fd_of(const struct gpu *gpu, unsigned i)
{
    const vg_gpu_source *source = gpu->sources[i];

    return gpu->ready[i] && source->ops->fd ? source->ops->fd(source) : -1;
}

/* Sleeps until this time, or until something happens that cannot wait. */
static void
wait_a_while(struct gpu *gpu, int64_t now_ns, int64_t until_ns)
{
    bool may_drain = now_ns >= gpu->drained_ns + DRAIN_NS;
    struct pollfd fds[VG_GPU_SOURCES_MAX + 1] = {{.fd = gpu->wake_fd, .events = POLLIN}};

    for (unsigned i = 0; i < gpu->n_sources; i++) {
        int fd = gpu_fd_of(gpu, i);
        fds[i + 1] = (struct pollfd){.fd = may_drain ? fd : -1, .events = POLLIN};
        if (fd >= 0 && !may_drain)
            until_ns = MIN(until_ns, gpu->drained_ns + DRAIN_NS);
    }
    if (vg_clock_poll(fds, gpu->n_sources + 1, until_ns) <= 0)
        return;
    for (unsigned i = 0; i < gpu->n_sources; i++) {
        if (!fds[i + 1].revents)
            continue;
        const struct vg_gpu_source_ops *ops = gpu->sources[i]->ops;
        (ops->take ? ops->take : ops->sample)(gpu->sources[i], vg_clock_monotonic_ns());
        gpu->drained_ns = vg_clock_monotonic_ns();
    }
}

/* Returns how long to wait for answers, or 0 if all have come. */
static int64_t
gpu_awaits(const struct gpu *gpu)
{
    int64_t until_ns = 0;

    for (unsigned i = 0; i < gpu->n_sources; i++) {
        const vg_gpu_source *source = gpu->sources[i];
        if (gpu->ready[i] && source->ops->awaits)
            until_ns = MAX(until_ns, source->ops->awaits(source));
    }
    return until_ns;
}

/* Waits for the answers to the requests made when the window ended, and continues to sample.
 * Returns false if the thread is to stop. */
static bool
wait_for_answers(struct gpu *gpu, vg_thread *self)
{
    int64_t now_ns, until_ns;

    while (!vg_thread_stopping(self) && (until_ns = gpu_awaits(gpu)) > 0 &&
           (now_ns = vg_clock_monotonic_ns()) < until_ns) {
        const int64_t sample_at = wants_samples(gpu) ? gpu->sampled_ns + gpu->sample_ns : INT64_MAX;
        vg_thread_beat(self);
        if (now_ns >= sample_at)
            gpu_sample(gpu, self);
        else
            wait_a_while(gpu, now_ns, MIN(MIN(until_ns, sample_at), now_ns + BEAT_NS));
    }
    return !vg_thread_stopping(self);
}

/* Waits until the window ends. Returns false if the thread is to stop. */
static bool
wait_for_end(struct gpu *gpu, vg_thread *self, int64_t end_ns)
{
    bool samples = wants_samples(gpu);
    int64_t now_ns;

    gpu->sampled_ns = vg_clock_monotonic_ns();
    while (!vg_thread_stopping(self) && (now_ns = vg_clock_monotonic_ns()) < end_ns) {
        int64_t sample_at = gpu->sampled_ns + gpu->sample_ns;
        /* The last sample of a window is taken at its end. */
        if (!samples || sample_at >= end_ns)
            sample_at = INT64_MAX;
        vg_thread_beat(self);
        if (now_ns >= sample_at)
            gpu_sample(gpu, self);
        else
            wait_a_while(gpu, now_ns, MIN(MIN(end_ns, sample_at), now_ns + BEAT_NS));
    }
    return !vg_thread_stopping(self);
}

static void
gpu_run(vg_collector *collector, vg_thread *self, const struct vg_report_sink *sink)
{
    struct gpu *gpu = (struct gpu *)collector;
    int64_t begin_ns = 0; /* 0: nothing has been read yet */
    struct vg_window_end end = vg_window_grid_next(gpu->grid, vg_clock_monotonic_ns());

    vg_report_put_state(&gpu->reported, sink, gpu->base.ops->name, VG_COLLECTOR_STARTING,
                        VG_TROUBLE_NONE, "searching for GPUs");
    while (wait_for_end(gpu, self, end.at_ns)) {
        /* If the thread overslept or waited for answers, the missed windows become one. */
        const bool was_late = vg_clock_monotonic_ns() >= end.at_ns + gpu->window_ns;
        find_ready_sources(gpu, self);
        if (!wait_for_answers(gpu, self))
            break;
        gpu->is_late = was_late && gpu->was_late;
        gpu->was_late = was_late;
        end = vg_window_grid_last(gpu->grid, vg_clock_monotonic_ns());
        begin_ns = gpu_close_window(gpu, self, sink, begin_ns, &end);
        end = vg_window_grid_next(gpu->grid, end.at_ns);
    }
    for (unsigned i = 0; i < gpu->n_sources; i++)
        gpu->sources[i]->ops->close(gpu->sources[i]);
}

static void
gpu_wake(vg_collector *collector)
{
    const struct gpu *gpu = (const struct gpu *)collector;
    uint64_t one = 1;

    while (write(gpu->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

static void
free_gpu(vg_collector *collector)
{
    struct gpu *gpu = (struct gpu *)collector;

    for (unsigned i = 0; i < gpu->n_sources; i++)
        vg_gpu_source_free(gpu->sources[i]);
    vg_proc_scan_free(gpu->scan);
    vg_window_grid_unref(gpu->grid);
    g_free(gpu->reported.text);
    if (gpu->wake_fd >= 0)
        close(gpu->wake_fd);
    g_free(gpu);
}

static const struct vg_collector_ops gpu_ops = {
    .name = "gpu",
    .measures_windows = true,
    .run = gpu_run,
    .wake = gpu_wake,
    .free = free_gpu,
};

vg_collector *
vg_gpu_new(const struct vg_gpu_options *options, vg_gpu_source *const *take_sources,
           unsigned n_sources)
{
    struct gpu *gpu = g_new0(struct gpu, 1);

    if (n_sources > VG_GPU_SOURCES_MAX)
        vg_bug("%u sources of GPU use", n_sources);
    gpu->base.ops = &gpu_ops;
    gpu->window_ns = options->window_ns;
    gpu->grid =
        options->grid ? vg_window_grid_ref(options->grid) : vg_window_grid_new(options->window_ns);
    gpu->sample_ns = options->sample_ns;
    gpu->scan = vg_proc_scan_new(options->proc);
    for (unsigned i = 0; i < n_sources; i++)
        gpu->sources[i] = take_sources[i];
    gpu->n_sources = n_sources;
    gpu->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    gpu->base.lag_ns = LAG_NS;
    return &gpu->base;
}
