/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/replay.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/error.h"
#include "collectors/window-report.h"
#include "host/vm-map.h"
#include "trace/open.h"
#include "trace/recording.h"

#define NAME "replay"

struct replay {
    vg_collector collector;
    vg_recording *recording;
    vg_topology *topology;
    double speed;
    int64_t window_ns;
    int64_t modified_ns; /* epoch */
    char source[sizeof(((struct vg_provenance *)NULL)->source)];
};

/* One pass through the recording. */
struct run {
    struct replay *replay;
    vg_thread *self;
    const struct vg_report_sink *sink;
    vg_window_reader *reader;
    int64_t clock_offset_ns;
    int64_t started_ns; /* CLOCK_MONOTONIC, when the first window started */
    int64_t begin_ns;   /* of the first window, raw clock */
    struct vg_window_meter meter;
    uint64_t windows;
};

static bool
replay_tick(void *data)
{
    struct run *run = data;

    vg_thread_beat(run->self);
    return !vg_thread_stopping(run->self);
}

/* Waits until the window would have ended. Returns false if the thread is to stop. */
static bool
keep_pace(const struct run *run, int64_t end_ns)
{
    if (!(run->replay->speed > 0))
        return !vg_thread_stopping(run->self);
    double passed_ns = (double)(end_ns - run->begin_ns) / run->replay->speed;
    return vg_thread_sleep_until(run->self, run->started_ns + (int64_t)passed_ns);
}

static void
begin(struct run *run, const struct vg_window *window)
{
    const vg_recording *recording = run->replay->recording;

    run->started_ns = vg_clock_monotonic_ns();
    run->begin_ns = window->begin_ns;
    run->clock_offset_ns = recording->clock_offset_ns != 0
                               ? recording->clock_offset_ns
                               : run->replay->modified_ns - window->begin_ns;
}

/* Replays the windows. Returns 1 at the end, 0 if stopped before, and -1 on failure. */
static int
read_windows(struct run *run, GError **err)
{
    struct vg_window window;
    int status;

    while ((status = vg_window_reader_next(run->reader, &window, err)) == 1) {
        if (run->windows == 0)
            begin(run, &window);
        if (!keep_pace(run, window.end_ns)) {
            vg_window_clear(&window);
            return 0;
        }
        run->windows++;
        run->sink->put(run->sink->data,
                       vg_window_report(&run->meter, run->reader, run->clock_offset_ns, &window));
        vg_thread_beat(run->self);
    }
    return status < 0 ? -1 : !vg_thread_stopping(run->self);
}

/* Reports how the replay ended. */
static void
report_end(const struct run *run)
{
    const vg_recording *recording = run->replay->recording;
    uint64_t problems = recording->problems.list->len + recording->problems.dropped;
    struct vg_report *end = vg_report_new(VG_REPORT_END, NAME);

    end->cpus = vg_window_reader_host_cpus(run->reader);
    vg_window_reader_read_period(run->reader, &end->window);
    if (problems > 0) {
        const struct vg_trace_problem *first = g_ptr_array_index(recording->problems.list, 0);
        end->text = g_strdup_printf("the recording could not be read in full (%" PRIu64
                                    " problems; %s, offset %" PRId64 ": %s)",
                                    problems, first->file, first->offset, first->what);
    }
    run->sink->put(run->sink->data, end);
    run->sink->put(run->sink->data,
                   vg_report_status(NAME, VG_COLLECTOR_ENDED,
                                    "replayed to the end: %" PRIu64 " windows, %" PRIu64 " records",
                                    run->windows, recording->events));
}

static void
run_replay(vg_collector *collector, vg_thread *self, const struct vg_report_sink *sink)
{
    struct replay *replay = (struct replay *)collector;
    struct run run = {
        .replay = replay,
        .self = self,
        .sink = sink,
        .meter = {.collector = NAME, .source = replay->source, .series = replay->source},
    };
    const struct vg_window_read_options options = {
        .window_ns = replay->window_ns,
        .gpu_requests = true,
        .tick = replay_tick,
        .data = &run,
    };
    g_autoptr(GError) error = NULL;

    sink->put(sink->data,
              vg_report_status(NAME, VG_COLLECTOR_OK, "reading %s", replay->recording->name));
    vg_window_meter_start(&run.meter);
    run.reader = vg_window_reader_new(replay->recording, replay->topology, &options);
    int status = read_windows(&run, &error);
    if (status == 1)
        report_end(&run);
    else if (status < 0)
        sink->put(sink->data, vg_report_status(NAME, VG_COLLECTOR_FAILED, "%s", error->message));
    vg_window_reader_free(run.reader);
}

static void
free_replay(vg_collector *collector)
{
    struct replay *replay = (struct replay *)collector;

    vg_recording_free(replay->recording);
    vg_topology_free(replay->topology);
    g_free(replay);
}

static const struct vg_collector_ops replay_ops = {
    .name = NAME,
    .measures_windows = true,
    .run = run_replay,
    .free = free_replay,
};

/* Names the source. A name that is too long keeps its end and a hash of the whole, so that
 * recordings whose names end alike remain distinct. */
static void
name_source(struct replay *replay)
{
    const char *name = replay->recording->name;
    g_autofree char *path = realpath(name, NULL);
    const char *full = path ? path : name;
    size_t room = sizeof(replay->source) - sizeof(NAME ":");

    if (strlen(full) <= room) {
        g_snprintf(replay->source, sizeof(replay->source), NAME ":%s", full);
        return;
    }
    g_autofree char *hash = g_compute_checksum_for_string(G_CHECKSUM_SHA256, full, -1);
    const char *tail = full + strlen(full) - (room - 9);
    while ((*tail & 0xc0) == 0x80)
        tail++;
    g_snprintf(replay->source, sizeof(replay->source), NAME ":%.8s:%s", hash, tail);
}

static vg_recording *
open_one(const char *path, vg_aliases *aliases, GError **err)
{
    const char *const paths[] = {path};
    g_autoptr(GPtrArray) recordings = vg_recordings_open(paths, 1, aliases, err);

    if (!recordings)
        return NULL;
    if (recordings->len == 1)
        return g_ptr_array_steal_index(recordings, 0);
    vg_error(err, VG_E_INVALID,
             "'%s' contains %u recordings without a common clock; specify one of them", path,
             recordings->len);
    return NULL;
}

vg_collector *
vg_replay_new(const struct vg_replay_options *options, GError **err)
{
    g_autoptr(vg_topology) topology = vg_topology_new();
    struct stat st = {0};

    if (options->vm_map_text && vg_vm_map_apply(options->vm_map_name, options->vm_map_text,
                                                options->vm_map_size, topology, err) < 0)
        return NULL;
    vg_recording *recording = open_one(options->path, options->aliases, err);
    if (!recording)
        return NULL;
    vg_recording_name_vms(recording, topology);
    struct replay *replay = g_new0(struct replay, 1);
    replay->collector.ops = &replay_ops;
    replay->recording = recording;
    replay->topology = g_steal_pointer(&topology);
    replay->speed = options->speed;
    replay->window_ns = options->window_ns;
    /* The time is the same, no matter which path led to the recording. */
    (void)!stat(recording->name, &st);
    replay->modified_ns = (int64_t)st.st_mtim.tv_sec * VG_NS_PER_S + st.st_mtim.tv_nsec;
    name_source(replay);
    return &replay->collector;
}

const char *
vg_replay_hostname(const vg_collector *collector)
{
    return vg_recording_host(((const struct replay *)collector)->recording);
}
