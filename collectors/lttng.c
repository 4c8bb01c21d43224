/* SPDX-License-Identifier: Apache-2.0
 *
 * A live session is a recording that continues. trace/ctf-live reads it with babeltrace2's source
 * lttng-live, which merges the streams, and with times on this host's CLOCK_MONOTONIC.
 * trace/window-read then makes windows on a grid, which this file reports. If there is no data yet,
 * the reader returns the time up to which the data is complete, so that time alone closes windows.
 *
 * One window reader with its own ledger reads a session. After a gap, it is unknown what the
 * threads did, so their states start again. What is known about VMs remains.
 *
 * babeltrace2 waits for the relay daemon in calls that do not return on their own. An alarm
 * interrupts them and sends heartbeats. It ends the calls if the collector is to stop, or if the
 * relay daemon does not answer.
 */
#include "config.h"

#include "collectors/lttng.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include <stdatomic.h>

#include "base/alarm.h"
#include "base/clock.h"
#include "base/error.h"
#include "collectors/lttng-url.h"
#include "collectors/window-report.h"
#include "host/proc-scan.h"
#include "trace/ctf-live.h"
#include "trace/lttng-session.h"

#define NAME "lttng"

/* The series in which this host's windows are stored, whatever measured them. */
#define SERIES_HERE "live"

/* The time between two checks for new data. */
#define POLL_NS (100 * VG_NS_PER_MS)

/* A connection that is not made before the first tick fails. */
#define TICK_NS        (500 * VG_NS_PER_MS)
#define ANSWER_LIMIT_S 10
#define ANSWER_TICKS   (ANSWER_LIMIT_S * VG_NS_PER_S / TICK_NS)

/* How long windows may be late while the relay daemon answers. Afterwards, the streams count as
 * silent. */
#define SILENCE_NS (5 * VG_NS_PER_S)

#define RETRY_MIN_NS (1 * VG_NS_PER_S)
#define RETRY_MAX_NS (30 * VG_NS_PER_S)

struct lttng {
    vg_collector collector; /* first */
    struct vg_lttng_url url;
    char *session_url; /* the session's URL; with create, the newest session's, or NULL */
    char *relay;
    char *boot_id;
    vg_aliases *aliases; /* or NULL */
    bool is_here;
    bool create;
    int64_t timer_us;
    int64_t window_ns;
    vg_window_grid *grid; /* NULL: another host's windows end at multiples of its own clock */
    vg_topology *topology;
    vg_proc_scan *scan; /* NULL: another host is traced */
    struct vg_reported_state reported;
    int64_t passed_ns; /* end of the newest window; INT64_MIN: none yet */
    uint64_t missed;   /* number of windows missed since the first one */
    uint64_t gaps;
};

/* The reading of one session, from the connection to its end. */
struct reading {
    struct lttng *lttng;
    vg_thread *self;
    const struct vg_report_sink *sink;
    vg_lttng_session *session; /* the session that was created, or NULL */
    vg_recording *live;
    vg_window_reader *reader;
    struct vg_window_meter meter;
    uint64_t windows;
    int64_t news_at_ns; /* CLOCK_MONOTONIC, when the last data came */
    int64_t news_ns;    /* end of the data */
    uint64_t news_events;
    /* For the alarm, which interrupts the above calls: */
    unsigned int pull;
    int64_t ticks; /* within the same pull */
    atomic_bool unanswered;
};

static void
lttng_report_state(const struct reading *reading, enum vg_collector_state state, const char *text)
{
    vg_report_put_state(&reading->lttng->reported, reading->sink, NAME, state, VG_TROUBLE_NONE,
                        text);
}

/* ---- what runs in a handler of a signal ---- */

static void
on_alarm(void *data)
{
    struct reading *reading = data;
    unsigned int pull = vg_ctf_live_pull(reading->live);

    reading->ticks = pull != 0 && pull == reading->pull ? reading->ticks + 1 : 0;
    reading->pull = pull;
    if (reading->ticks >= ANSWER_TICKS)
        atomic_store(&reading->unanswered, true);
    vg_thread_beat(reading->self);
    if (atomic_load(&reading->unanswered) || vg_thread_stopping(reading->self))
        vg_ctf_live_interrupt(reading->live);
}

static bool
keep_on(void *data)
{
    return !vg_thread_stopping(((struct reading *)data)->self);
}

/* ---- who is who ---- */

/* Groups threads into VMs with the help of /proc: without the context pid, a trace does not report
 * which threads belong to one VM. This happens before their first event, so that no thread is
 * reported as its own VM. */
static void
group_threads(struct lttng *lttng)
{
    g_autoptr(GError) ignored = NULL;

    if (!lttng->scan || vg_proc_scan_update(lttng->scan, vg_clock_monotonic_ns(), &ignored) < 0)
        return;
    const GPtrArray *vms = vg_proc_scan_vms(lttng->scan);
    for (unsigned int i = 0; i < vms->len; i++) {
        const struct vg_proc_vm *vm = vms->pdata[i];
        for (unsigned int k = 0; k < vm->vcpus->len; k++) {
            int32_t tid = g_array_index(vm->vcpus, struct vg_proc_vcpu, k).tid;
            vg_topology_set_process(lttng->topology, vg_topology_thread(lttng->topology, tid),
                                    vm->pid);
        }
        vg_proc_vm_adopt_helpers(vm, lttng->topology);
    }
}

static void
name_vms(const struct lttng *lttng, struct vg_window *window)
{
    const GPtrArray *known = lttng->scan ? vg_proc_scan_vms(lttng->scan) : NULL;

    for (unsigned int i = 0; known && i < window->vms->len; i++) {
        struct vg_vm_sample *vm = &g_array_index(window->vms, struct vg_vm_sample, i);
        for (unsigned int k = 0; k < known->len; k++) {
            const struct vg_proc_vm *same = known->pdata[k];
            if (same->pid != vm->pid)
                continue;
            g_strlcpy(vm->name, same->name, sizeof(vm->name));
            g_strlcpy(vm->uuid, same->uuid, sizeof(vm->uuid));
        }
    }
    vg_window_sort_vms(window);
}

/* ---- windows ---- */

/* Describes what is wrong with the data, or returns NULL. The caller frees the text. */
static char *
find_fault(const struct reading *reading)
{
    const vg_recording *live = reading->live;
    const GPtrArray *missing = reading->session ? vg_lttng_session_missing(reading->session) : NULL;

    if (!live->has_switch)
        return g_strdup("no sched_switch has been read yet, so running and waiting are unknown (is "
                        "the event enabled in the session?)");
    if (missing && missing->len > 0)
        return g_strdup(g_ptr_array_index(missing, 0));
    if (live->problems.list->len > 0) {
        const struct vg_trace_problem *problem = g_ptr_array_index(live->problems.list, 0);
        return g_strdup(problem->what);
    }
    return NULL;
}

static void
lttng_report_health(const struct reading *reading)
{
    const struct lttng *lttng = reading->lttng;
    g_autofree char *fault = find_fault(reading);
    g_autoptr(GString) text = g_string_new(NULL);

    g_string_append_printf(text, "reading %s", reading->live->name);
    if (lttng->gaps > 0)
        g_string_append_printf(text, "; %" PRIu64 " windows were missed in %" PRIu64 " gaps",
                               lttng->missed, lttng->gaps);
    if (fault)
        g_string_append_printf(text, "; %s", fault);
    lttng_report_state(reading, fault ? VG_COLLECTOR_DEGRADED : VG_COLLECTOR_OK, text->str);
}

/* Counts the windows of the grid between the previous window and this one. */
static uint64_t
count_missed(struct lttng *lttng, const struct vg_window *window)
{
    int64_t passed_ns = lttng->passed_ns;

    lttng->passed_ns = window->end_ns;
    if (passed_ns == INT64_MIN || window->begin_ns <= passed_ns)
        return 0;
    uint64_t missed = (uint64_t)((window->begin_ns - passed_ns) / lttng->window_ns);
    lttng->missed += missed;
    lttng->gaps++;
    return missed;
}

static void
report_window(struct reading *reading, struct vg_window *take_window)
{
    struct lttng *lttng = reading->lttng;
    int64_t offset_ns = lttng->grid
                            ? vg_window_grid_last(lttng->grid, take_window->end_ns).offset_ns
                            : reading->live->clock_offset_ns;

    /* The clock of another host was set back. */
    if (take_window->end_ns <= lttng->passed_ns) {
        vg_window_clear(take_window);
        return;
    }
    group_threads(lttng);
    name_vms(lttng, take_window);
    uint64_t missed = count_missed(lttng, take_window);
    struct vg_report *report =
        vg_window_report(&reading->meter, reading->reader, offset_ns, take_window);
    report->provenance.missed = missed;
    reading->windows++;
    reading->sink->put(reading->sink->data, report);
    lttng_report_health(reading);
}

/* ---- one session ---- */

/* Detects that the streams have stopped although the relay daemon answers. */
static void
check_progress(struct reading *reading)
{
    const vg_recording *live = reading->live;
    const struct lttng *lttng = reading->lttng;
    int64_t now_ns = vg_clock_monotonic_ns();
    int64_t limit_ns = lttng->window_ns + lttng->collector.lag_ns + SILENCE_NS;

    if (live->passed_ns != reading->news_ns || live->events != reading->news_events) {
        reading->news_ns = live->passed_ns;
        reading->news_events = live->events;
        reading->news_at_ns = now_ns;
        return;
    }
    if (now_ns - reading->news_at_ns < limit_ns)
        return;
    g_autofree char *text = g_strdup_printf(
        "connected to %s, but no data came for more than %d s: check that the session is started "
        "and the traced host is running",
        live->name, (int)(limit_ns / VG_NS_PER_S));
    lttng_report_state(reading, VG_COLLECTOR_FAILED, text);
}

static int
check_place(const struct reading *reading, GError **err)
{
    if (!reading->lttng->is_here || vg_ctf_live_is_here(reading->live))
        return 0;
    return vg_error(err, VG_E_CONFLICT,
                    "the traced machine is not this machine (its clock has another id); set "
                    "[lttng] host=other if that is intended");
}

/* Waits while there is nothing to read. */
static void
wait_for_news(struct reading *reading)
{
    if (reading->windows == 0 && reading->lttng->reported.state != VG_COLLECTOR_FAILED)
        lttng_report_state(reading, VG_COLLECTOR_STARTING,
                           "connected; the first window is not complete yet");
    check_progress(reading);
    vg_thread_sleep_until(reading->self, vg_clock_monotonic_ns() + POLL_NS);
}

/* Reads windows. Returns 0 at the end of the session or thread, -1 if the connection failed. */
static int
read_windows(struct reading *reading, GError **err)
{
    struct vg_window window;
    int status = VG_RECORDING_AGAIN;

    reading->news_at_ns = vg_clock_monotonic_ns();
    reading->news_ns = INT64_MIN;
    group_threads(reading->lttng);
    while (status > 0 && !vg_thread_stopping(reading->self)) {
        status = vg_window_reader_next(reading->reader, &window, err);
        vg_thread_beat(reading->self);
        if (status == VG_RECORDING_AGAIN)
            wait_for_news(reading);
        if (status != 1)
            continue;
        if (check_place(reading, err) < 0) {
            vg_window_clear(&window);
            return -1;
        }
        report_window(reading, &window);
    }
    return status < 0 ? -1 : 0;
}

/* Creates the kernel session if this is configured. */
static int
make_session(struct reading *reading, GError **err)
{
    struct lttng *lttng = reading->lttng;
    const struct vg_lttng_options options = {
        .prefix = "vgpud",
        .relayd_url = lttng->relay,
        .live_interval_us = (uint32_t)lttng->timer_us,
    };

    if (!lttng->create)
        return 0;
    reading->session = vg_lttng_session_new(&options, err);
    if (!reading->session || vg_lttng_session_start(reading->session, err) < 0)
        return -1;
    g_free(lttng->session_url);
    lttng->session_url =
        vg_lttng_url_of(&lttng->url, g_get_host_name(), vg_lttng_session_name(reading->session));
    return 0;
}

static int64_t
lttng_grid_end(void *data, int64_t after_ns)
{
    return vg_window_grid_next(((const struct reading *)data)->lttng->grid, after_ns).at_ns;
}

static int
read_live(struct reading *reading, GError **err)
{
    struct lttng *lttng = reading->lttng;
    const struct vg_window_read_options options = {
        .window_ns = lttng->window_ns,
        .on_grid = true,
        .grid_end = lttng->grid ? lttng_grid_end : NULL,
        .gpu_requests = true,
        .tick = keep_on,
        .data = reading,
    };

    reading->meter = (struct vg_window_meter){
        .collector = NAME, .source = NAME, .series = lttng->is_here ? SERIES_HERE : NAME};
    vg_window_meter_start(&reading->meter);
    reading->reader = vg_window_reader_new(reading->live, lttng->topology, &options);
    vg_alarm *alarm = vg_alarm_start(TICK_NS, on_alarm, reading, err);
    int status = alarm ? read_windows(reading, err) : -1;
    vg_window_reader_free(reading->reader);
    vg_ctf_live_close(reading->live);
    vg_alarm_stop(alarm);
    vg_recording_free(reading->live);
    return status;
}

/* Reads a session from the connection to its end. *ret_windows is the number of windows read. */
static int
read_session(struct lttng *lttng, vg_thread *self, const struct vg_report_sink *sink,
             uint64_t *ret_windows, GError **err)
{
    struct reading reading = {.lttng = lttng, .self = self, .sink = sink};
    int status = make_session(&reading, err);

    if (status == 0) {
        const struct vg_ctf_live_options options = {
            .url = lttng->session_url,
            .boot_id = lttng->boot_id,
            .epoch_at_clock_ns = vg_clock_realtime_ns() - vg_clock_monotonic_ns(),
            .aliases = lttng->aliases,
        };
        reading.live = vg_ctf_live_open(&options, err);
        status = reading.live ? read_live(&reading, err) : -1;
    }
    if (atomic_load(&reading.unanswered)) {
        g_clear_error(err);
        status = vg_error(err, VG_E_TIMEOUT, "the relay daemon has not answered for %d s",
                          ANSWER_LIMIT_S);
    }
    vg_lttng_session_free(reading.session);
    *ret_windows = reading.windows;
    return status;
}

/* ---- the collector ---- */

static void
lttng_report_end(struct lttng *lttng, const struct vg_report_sink *sink, uint64_t windows,
                 const GError *error)
{
    const char *url = lttng->session_url;
    g_autofree char *text = NULL;

    if (error && url)
        text = g_strdup_printf("cannot read %s: %s; trying again", url, error->message);
    else if (error)
        text = g_strdup_printf("%s; trying again", error->message);
    else if (windows > 0)
        text = g_strdup_printf("the session %s has ended; waiting for a new one", url);
    else
        text = g_strdup_printf("the live session %s does not exist yet; waiting for it", url);
    vg_report_put_state(&lttng->reported, sink, NAME, VG_COLLECTOR_FAILED, VG_TROUBLE_NONE, text);
}

static void
lttng_run(vg_collector *collector, vg_thread *self, const struct vg_report_sink *sink)
{
    struct lttng *lttng = (struct lttng *)collector;
    int64_t pause_ns = RETRY_MIN_NS;

    vg_report_put_state(&lttng->reported, sink, NAME, VG_COLLECTOR_STARTING, VG_TROUBLE_NONE,
                        "connecting");
    while (!vg_thread_stopping(self)) {
        g_autoptr(GError) error = NULL;
        uint64_t windows = 0;
        vg_thread_beat(self);
        int status = read_session(lttng, self, sink, &windows, &error);
        if (vg_thread_stopping(self))
            break;
        lttng_report_end(lttng, sink, windows, status < 0 ? error : NULL);
        pause_ns = windows > 0 ? RETRY_MIN_NS : pause_ns;
        vg_thread_sleep_until(self, vg_clock_monotonic_ns() + pause_ns);
        pause_ns = MIN(2 * pause_ns, RETRY_MAX_NS);
    }
}

static void
free_lttng(vg_collector *collector)
{
    struct lttng *lttng = (struct lttng *)collector;

    vg_topology_free(lttng->topology);
    vg_proc_scan_free(lttng->scan);
    vg_lttng_url_clear(&lttng->url);
    g_free(lttng->session_url);
    g_free(lttng->relay);
    g_free(lttng->boot_id);
    vg_aliases_unref(lttng->aliases);
    vg_window_grid_unref(lttng->grid);
    g_free(lttng->reported.text);
    g_free(lttng);
}

static const struct vg_collector_ops lttng_ops = {
    .name = NAME,
    .measures_windows = true,
    .run = lttng_run,
    .free = free_lttng,
};

static char *
read_boot_id(const char *proc)
{
    g_autofree char *path = g_build_filename(proc, "sys/kernel/random/boot_id", NULL);
    char *text = NULL;

    if (!g_file_get_contents(path, &text, NULL, NULL))
        return g_strdup("");
    return g_strstrip(text);
}

static int
check_session(const struct vg_lttng_live_options *options, const struct vg_lttng_url *url,
              GError **err)
{
    if (options->create && url->session)
        return vg_error(err, VG_E_INVALID,
                        "'%s' names a session, but create=yes creates one with its own name: use "
                        "net://RELAY[:PORT]",
                        options->url);
    if (!options->create && !url->session)
        return vg_error(err, VG_E_INVALID,
                        "'%s' names no session; use net://RELAY[:PORT]/host/HOST/SESSION",
                        options->url);
    return 0;
}

vg_collector *
vg_lttng_new(const struct vg_lttng_live_options *options, GError **err)
{
    struct vg_lttng_url url;

    if (vg_lttng_url_parse(options->url, &url, err) < 0)
        return NULL;
    if (check_session(options, &url, err) < 0) {
        vg_lttng_url_clear(&url);
        return NULL;
    }
    struct lttng *lttng = g_new0(struct lttng, 1);
    lttng->collector.ops = &lttng_ops;
    lttng->collector.lag_ns = options->lag_ns;
    lttng->url = url;
    lttng->session_url = url.session ? vg_lttng_url_of(&url, url.host, url.session) : NULL;
    lttng->relay = g_strdup(options->relay);
    lttng->boot_id = read_boot_id(options->proc);
    lttng->is_here = options->is_here;
    lttng->aliases = vg_aliases_ref(options->aliases);
    lttng->create = options->create;
    lttng->timer_us = options->timer_us;
    lttng->window_ns = options->window_ns;
    if (options->is_here)
        lttng->grid = options->grid ? vg_window_grid_ref(options->grid)
                                    : vg_window_grid_new(options->window_ns);
    lttng->topology = vg_topology_new();
    lttng->scan = options->is_here ? vg_proc_scan_new(options->proc) : NULL;
    lttng->passed_ns = INT64_MIN;
    return &lttng->collector;
}
