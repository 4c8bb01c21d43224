/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/live.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "collectors/cpu-limit.h"
#include "collectors/live-host.h"
#include "collectors/vcpu-affinity.h"
#include "host/proc-scan.h"

/* A source that failed is tried again after this time, which doubles up to the maximum. */
#define RETRY_NS  (30 * VG_NS_PER_S)
#define RETRY_MAX 32
/* The directory of control groups. */
#define CGROUP "/sys/fs/cgroup"
/* The time between two heartbeats. */
#define BEAT_NS VG_NS_PER_S
/* The minimum time between two reactions to hints: QEMU names its threads one by one. */
#define HINTS_NS (20 * VG_NS_PER_MS)
/* The minimum time between two reads of a source, whatever its descriptor reports. */
#define DRAIN_NS VG_NS_PER_MS
/* The number of successive windows above the budget after which less is measured. */
#define EXPENSIVE_WINDOWS 3
/* The maximum number of effort levels of a source. */
#define LEVELS_MAX 8
#define EXCESS_LEN 160
/* The time above the budget after which a source that has no cheaper level is left. Also the time
 * below a fraction of the budget after which more is measured. The latter doubles each time that
 * measuring more soon proved too expensive. */
#define PATIENCE_NS  (60 * VG_NS_PER_S)
#define PATIENCE_MAX 16
#define CHEAP_PART   0.5

struct rung {
    vg_cpu_source *source;
    int64_t retry_ns; /* time of the next attempt */
    int64_t backoff_ns;
    int64_t since_ns; /* start of its use */
    GError *problem;  /* why the source is not used; NULL: it was not tried, or it works */
};

struct live {
    struct vg_collector base; /* first */
    vg_window_grid *grid;
    double budget;
    int64_t retry_ns;
    int64_t patience_ns;
    char *proc;
    vg_proc_scan *scan;
    struct rung rungs[VG_LIVE_SOURCES_MAX];
    unsigned n_rungs;
    unsigned at; /* the rung in use; n_rungs: none */
    int wake_fd;
    GArray *hints; /* struct vg_cpu_hint */
    int64_t hints_ns;
    int64_t drained_ns;
    int64_t cpu_ns; /* of the thread, at the end of the last window */
    uint64_t missed;
    /* The number of effort levels left out. Beyond the source's own levels, the last source is
     * used, and its levels count. */
    unsigned thrift;
    char excess[2 * LEVELS_MAX][EXCESS_LEN]; /* by thrift: what was too expensive, and when */
    unsigned expensive_windows;              /* successive windows above the budget */
    int64_t expensive_ns;                    /* their duration, and their cost */
    int64_t expensive_cost_ns;
    int64_t cheap_since_ns; /* 0: not cheap */
    int64_t cheap_wait_ns;
    int64_t raised_ns; /* time of the last increase */
    struct vg_live_host host;
    vg_cpu_limits *limits;
    struct vg_reported_state reported;
};

static vg_cpu_source *
source_at(const struct live *live, unsigned rung)
{
    return live->rungs[rung].source;
}

static const char *
name_at(const struct live *live, unsigned rung)
{
    return source_at(live, rung)->ops->name;
}

/* ---- the ladder ---- */

/* Returns the maximum number of effort levels of the sources above the last one. */
static unsigned
levels_above(const struct live *live)
{
    unsigned most = 0;

    for (unsigned i = 0; i + 1 < live->n_rungs; i++)
        most = MAX(most, source_at(live, i)->ops->levels);
    return most;
}

/* Finds the level at which a source is used now. Returns false if every level is too expensive. */
static bool
level_of(const struct live *live, unsigned rung, unsigned *ret)
{
    unsigned levels = source_at(live, rung)->ops->levels;
    unsigned above = rung + 1 == live->n_rungs ? levels_above(live) : 0;

    if (rung + 1 < live->n_rungs && live->thrift >= levels)
        return false;
    *ret = live->thrift > above ? MIN(live->thrift - above, levels - 1) : 0;
    return true;
}

static int
apply_level(const struct live *live, unsigned rung, GError **err)
{
    const struct vg_cpu_source_ops *ops = source_at(live, rung)->ops;
    unsigned level;

    return !ops->set_level || !level_of(live, rung, &level)
               ? 0
               : ops->set_level(source_at(live, rung), level, err);
}

/* Closes a source that does not work. */
static void
fall(struct live *live, unsigned rung, const GError *why)
{
    struct rung *r = &live->rungs[rung];

    r->source->ops->close(r->source);
    int64_t now_ns = vg_clock_monotonic_ns();
    /* A source that worked for longer than its delay counts as good again. */
    if (live->at == rung && now_ns - r->since_ns > r->backoff_ns)
        r->backoff_ns = 0;
    r->backoff_ns = CLAMP(r->backoff_ns * 2, live->retry_ns, live->retry_ns * RETRY_MAX);
    r->retry_ns = now_ns + r->backoff_ns;
    g_clear_error(&r->problem);
    r->problem = g_error_copy(why);
    if (live->at == rung)
        live->at = live->n_rungs;
}

/* Opens a source and takes the counts with which the next window starts. */
static bool
live_switch_to(struct live *live, unsigned rung, vg_thread *self)
{
    vg_cpu_source *source = source_at(live, rung);
    g_autoptr(GError) err = NULL;

    vg_thread_beat(self);
    if (source->ops->open(source, &err) < 0 || apply_level(live, rung, &err) < 0 ||
        source->ops->watch(source, vg_proc_scan_vms(live->scan), self, &err) < 0) {
        fall(live, rung, err);
        return false;
    }
    if (live->at < live->n_rungs)
        source_at(live, live->at)->ops->close(source_at(live, live->at));
    g_clear_error(&live->rungs[rung].problem);
    live->at = rung;
    live->rungs[rung].since_ns = vg_clock_monotonic_ns();
    return true;
}

/* Switches to the best source that works within the budget, unless it is already in use. */
static void
climb(struct live *live, vg_thread *self)
{
    unsigned level;

    for (unsigned i = 0; i < live->at; i++) {
        if (level_of(live, i, &level) && vg_clock_monotonic_ns() >= live->rungs[i].retry_ns &&
            live_switch_to(live, i, self))
            return;
    }
}

/* ---- the budget ---- */

static void
set_thrift(struct live *live, unsigned thrift, vg_thread *self)
{
    g_autoptr(GError) err = NULL;
    unsigned level;
    unsigned last = live->n_rungs - 1;

    live->thrift = thrift;
    if (level_of(live, live->at, &level)) {
        if (apply_level(live, live->at, &err) < 0)
            fall(live, live->at, err);
    } else {
        live_switch_to(live, last, self);
    }
}

/* Adds the cost of a window. */
static void
live_add_cost(struct live *live, int64_t cost_ns, int64_t span_ns, int64_t now_ns)
{
    double cost = (double)cost_ns / (double)MAX(span_ns, 1);

    if (cost <= live->budget) {
        live->expensive_windows = 0;
        live->expensive_ns = live->expensive_cost_ns = 0;
    } else {
        live->expensive_windows++;
        live->expensive_ns += span_ns;
        live->expensive_cost_ns += cost_ns;
    }
    if (cost > live->budget * CHEAP_PART)
        live->cheap_since_ns = 0;
    else if (live->cheap_since_ns == 0)
        live->cheap_since_ns = now_ns;
}

/* Returns whether windows were above the budget for long enough to measure less. */
static bool
live_must_save(const struct live *live, bool raised_in_vain)
{
    const struct vg_cpu_source_ops *ops = source_at(live, live->at)->ops;
    bool last = live->at + 1 == live->n_rungs;
    bool leaves = !last && live->thrift + 1 >= ops->levels;
    unsigned most = levels_above(live) + source_at(live, live->n_rungs - 1)->ops->levels - 1;

    return live->expensive_windows >= EXPENSIVE_WINDOWS && live->thrift < most &&
           (!leaves || raised_in_vain || live->expensive_ns >= live->patience_ns);
}

static void
live_note_excess(struct live *live)
{
    char now[VG_UTC_LEN];

    vg_utc_format(vg_clock_realtime_ns() / VG_NS_PER_S * VG_NS_PER_S, now);
    snprintf(live->excess[live->thrift], EXCESS_LEN,
             "%s took %.2f %% of a core at %s, more than the budget of %.3g %%",
             name_at(live, live->at),
             100 * (double)live->expensive_cost_ns / (double)live->expensive_ns, now,
             live->budget * 100);
}

/* Enforces the budget after a window that cost this much. */
static void
keep_budget(struct live *live, int64_t cost_ns, int64_t span_ns, vg_thread *self)
{
    int64_t now_ns = vg_clock_monotonic_ns();
    bool raised_in_vain = live->raised_ns > 0 && now_ns - live->raised_ns < live->patience_ns;

    if (live->budget <= 0)
        return;
    live_add_cost(live, cost_ns, span_ns, now_ns);
    if (live_must_save(live, raised_in_vain)) {
        live->cheap_wait_ns = raised_in_vain
                                  ? MIN(live->cheap_wait_ns * 2, live->patience_ns * PATIENCE_MAX)
                                  : live->patience_ns;
        live_note_excess(live);
        live->raised_ns = 0;
        live->expensive_windows = 0;
        live->expensive_ns = live->expensive_cost_ns = 0;
        set_thrift(live, live->thrift + 1, self);
    } else if (live->thrift > 0 && live->cheap_since_ns > 0 &&
               now_ns - live->cheap_since_ns >= live->cheap_wait_ns) {
        live->cheap_since_ns = 0;
        live->raised_ns = now_ns;
        set_thrift(live, live->thrift - 1, self);
    }
}

/* ---- windows ---- */

/* Explains why better sources are not used, or returns NULL. The caller frees the text. */
static char *
shortcomings(const struct live *live)
{
    GString *text = g_string_new(NULL);
    unsigned level;

    for (unsigned i = 0; i < live->at && i < live->n_rungs; i++) {
        if (live->rungs[i].problem)
            g_string_append_printf(text, "; %s is not used: %s", name_at(live, i),
                                   live->rungs[i].problem->message);
        if (live->rungs[i].problem || level_of(live, i, &level))
            continue;
        g_string_append_printf(text, "; %s is not used: %s", name_at(live, i),
                               live->excess[source_at(live, i)->ops->levels - 1]);
    }
    if (live->at < live->n_rungs && level_of(live, live->at, &level) && level > 0) {
        g_string_append_printf(text, "; reduced detail: %s", live->excess[live->thrift - 1]);
    }
    return g_string_free(text, text->len == 0);
}

/* Describes the state of each rung: the one in use, the better ones above and those below. The
 * caller unrefs the array. */
static GPtrArray *
live_sources(const struct live *live)
{
    GPtrArray *states = vg_source_states_new();
    unsigned level;

    for (unsigned i = 0; i < live->n_rungs; i++) {
        const char *name = name_at(live, i);
        GString *reason = g_string_new(NULL);
        enum vg_source_state_kind kind = VG_SOURCE_ABSENT;
        const bool fits = level_of(live, i, &level);
        if (live->rungs[i].problem)
            g_string_append(reason, live->rungs[i].problem->message);
        else if (i != live->at && fits)
            kind = VG_SOURCE_SPARE;
        else if (fits)
            kind = level > 0 ? VG_SOURCE_LESS : VG_SOURCE_USED;
        if (reason->len == 0 && (!fits || kind == VG_SOURCE_LESS))
            g_string_append(
                reason,
                live->excess[fits ? live->thrift - 1 : source_at(live, i)->ops->levels - 1]);
        const enum vg_trouble trouble = (enum vg_trouble)vg_error_detail(live->rungs[i].problem);
        vg_source_states_add(states, name, kind, trouble, g_string_free(reason, reason->len == 0));
    }
    return states;
}

static void
live_report_state(struct live *live, const struct vg_report_sink *sink,
                  enum vg_collector_state state, const char *text)
{
    vg_report_put_sources(&live->reported, sink, live->base.ops->name, state, text,
                          state == VG_COLLECTOR_STARTING ? NULL : live_sources(live));
}

static void
live_report_health(struct live *live, const struct vg_report_sink *sink,
                   const struct vg_provenance *provenance)
{
    unsigned vms = vg_proc_scan_vms(live->scan)->len;
    const char *const gaps[] = {
        provenance->measures[VG_MEASURE_RUN].reason,
        provenance->measures[VG_MEASURE_WAIT].reason,
        provenance->silent ? provenance->measures[VG_MEASURE_EXITS].reason : NULL,
    };
    g_autofree char *less = shortcomings(live);
    g_autoptr(GString) text = g_string_new(NULL);

    for (unsigned i = 0; i < G_N_ELEMENTS(gaps); i++) {
        if (gaps[i])
            g_string_append_printf(text, "; %s", gaps[i]);
    }
    g_string_append(text, less ? less : "");
    bool well = text->len == 0;
    /* Without the number of VMs if this is a warning. Otherwise each change of the number would be
     * a new warning. */
    g_autofree char *head =
        well ? g_strdup_printf("%u VM%s, by ", vms, vms == 1 ? "" : "s") : g_strdup("by ");
    g_string_prepend(text, name_at(live, live->at));
    g_string_prepend(text, head);
    live_report_state(live, sink, well ? VG_COLLECTOR_OK : VG_COLLECTOR_DEGRADED, text->str);
}

/* Reports that nothing works, not even the last source. */
static void
live_report_failure(struct live *live, const struct vg_report_sink *sink)
{
    g_autofree char *less = shortcomings(live);

    live_report_state(live, sink, VG_COLLECTOR_FAILED,
                      less ? less + strlen("; ") : "there is no source");
}

/* Fills the window with what happened since the last one. Returns false if the source does not work
 * any more, or there was none. */
static bool
fill_window(struct live *live, vg_thread *self, struct vg_report *report)
{
    g_autoptr(GError) err = NULL;

    if (live->at == live->n_rungs)
        return false;
    vg_cpu_source *source = source_at(live, live->at);
    g_strlcpy(report->provenance.source, source->ops->name, sizeof(report->provenance.source));
    g_strlcpy(report->provenance.series, live->base.ops->name, sizeof(report->provenance.series));
    if (source->ops->read(source, vg_proc_scan_vms(live->scan), self, &report->window,
                          &report->provenance, &err) == 0) {
        vg_vcpu_affinity_read(&report->window);
        vg_cpu_limits_settle(live->limits, &report->window);
        return true;
    }
    fall(live, live->at, err);
    return false;
}

/* Closes a window. begin_ns 0 means that nothing was measured at its start. Returns the begin_ns of
 * the next window. */
static int64_t
live_close_window(struct live *live, vg_thread *self, const struct vg_report_sink *sink,
                  int64_t begin_ns, const struct vg_window_end *end)
{
    const int64_t end_ns = end->at_ns;
    g_autoptr(GError) err = NULL;
    g_autoptr(vg_report) report = vg_report_new(VG_REPORT_WINDOW, live->base.ops->name);

    vg_window_init(&report->window, false);
    if (vg_proc_scan_update(live->scan, vg_clock_monotonic_ns(), &err) < 0) {
        live_report_state(live, sink, VG_COLLECTOR_FAILED, err->message);
        live->missed++;
        return 0;
    }
    report->window.begin_ns = begin_ns;
    report->window.end_ns = end_ns;
    bool filled = fill_window(live, self, report) && begin_ns > 0;
    int64_t cpu_ns = vg_clock_thread_cpu_ns();
    report->provenance.cost_ns += cpu_ns - live->cpu_ns;
    report->provenance.level = live->thrift;
    report->provenance.missed = live->missed;
    report->clock_offset_ns = end->offset_ns;
    vg_live_host_read(&live->host, &report->window);
    if (filled) {
        vg_host_programs_read(live->host.programs, live->scan, end_ns + report->clock_offset_ns,
                              &report->window);
        keep_budget(live, report->provenance.cost_ns, end_ns - begin_ns, self);
        live->missed = 0;
    } else if (begin_ns > 0) {
        live->missed++;
    }
    climb(live, self);
    live->cpu_ns = vg_clock_thread_cpu_ns();
    if (live->at == live->n_rungs)
        live_report_failure(live, sink);
    else if (filled)
        live_report_health(live, sink, &report->provenance);
    if (filled)
        sink->put(sink->data, g_steal_pointer(&report));
    return live->at < live->n_rungs ? end_ns : 0;
}

/* ---- the thread ---- */

static int
hints_fd(const struct live *live)
{
    const vg_cpu_source *source = live->at < live->n_rungs ? source_at(live, live->at) : NULL;

    return source && source->ops->fd ? source->ops->fd(source) : -1;
}

static int
drain_fd(const struct live *live)
{
    const vg_cpu_source *source = live->at < live->n_rungs ? source_at(live, live->at) : NULL;

    return source && source->ops->drain_fd ? source->ops->drain_fd(source) : -1;
}

/* Checks the threads that the hints name. A process may name a thread like a vCPU again and again,
 * so only the last name of each thread counts. */
static void
follow_hints(struct live *live, int64_t now_ns)
{
    g_autoptr(GHashTable) named = g_hash_table_new(NULL, NULL); /* tid -> its last name */

    for (unsigned i = 0; i < live->hints->len; i++) {
        struct vg_cpu_hint *hint = &g_array_index(live->hints, struct vg_cpu_hint, i);
        if (hint->comm[0] != '\0')
            g_hash_table_insert(named, GINT_TO_POINTER(hint->tid), hint);
    }
    for (unsigned i = 0; i < live->hints->len; i++) {
        const struct vg_cpu_hint *hint = &g_array_index(live->hints, struct vg_cpu_hint, i);
        if (hint->comm[0] == '\0' || g_hash_table_lookup(named, GINT_TO_POINTER(hint->tid)) == hint)
            vg_proc_scan_look(live->scan, hint->pid, hint->tid, hint->comm, now_ns);
    }
}

/* Starts to measure VMs from the hints, without waiting for the end of the window. */
static void
take_hints(struct live *live, vg_thread *self)
{
    vg_cpu_source *source = source_at(live, live->at);

    g_array_set_size(live->hints, 0);
    source->ops->hints(source, live->hints);
    follow_hints(live, vg_clock_monotonic_ns());
    /* If this fails, it fails again when the window is read, which reports the error. */
    if (live->hints->len > 0)
        (void)source->ops->watch(source, vg_proc_scan_vms(live->scan), self, NULL);
    live->hints_ns = vg_clock_monotonic_ns();
}

static void
drain(struct live *live)
{
    vg_cpu_source *source = source_at(live, live->at);

    source->ops->drain(source);
    live->drained_ns = vg_clock_monotonic_ns();
}

/* Waits until the window ends. Returns false if the thread is to stop. */
static bool
wait_for_end(struct live *live, vg_thread *self, int64_t end_ns)
{
    int64_t now_ns;

    while (!vg_thread_stopping(self) && (now_ns = vg_clock_monotonic_ns()) < end_ns) {
        int64_t until_ns = MIN(end_ns, now_ns + BEAT_NS);
        bool listen = now_ns >= live->hints_ns + HINTS_NS;
        int drain_at = drain_fd(live);
        bool may_drain = drain_at >= 0 && now_ns >= live->drained_ns + DRAIN_NS;
        struct pollfd fds[3] = {{.fd = live->wake_fd, .events = POLLIN},
                                {.fd = listen ? hints_fd(live) : -1, .events = POLLIN},
                                {.fd = may_drain ? drain_at : -1, .events = POLLIN}};
        if (!listen)
            until_ns = MIN(until_ns, live->hints_ns + HINTS_NS);
        if (drain_at >= 0 && !may_drain)
            until_ns = MIN(until_ns, live->drained_ns + DRAIN_NS);
        vg_thread_beat(self);
        if (vg_clock_poll(fds, 3, until_ns) <= 0)
            continue;
        if (fds[2].revents)
            drain(live);
        if (fds[1].revents)
            take_hints(live, self);
    }
    return !vg_thread_stopping(self);
}

static void
live_run(vg_collector *collector, vg_thread *self, const struct vg_report_sink *sink)
{
    struct live *live = (struct live *)collector;
    int64_t begin_ns = 0; /* 0: nothing has been measured yet */
    struct vg_window_end end = vg_window_grid_next(live->grid, vg_clock_monotonic_ns());

    live_report_state(live, sink, VG_COLLECTOR_STARTING, "waiting for the first window");
    while (wait_for_end(live, self, end.at_ns)) {
        /* If the thread overslept, the missed windows become one long window. */
        end = vg_window_grid_last(live->grid, vg_clock_monotonic_ns());
        begin_ns = live_close_window(live, self, sink, begin_ns, &end);
        end = vg_window_grid_next(live->grid, end.at_ns);
    }
    if (live->at < live->n_rungs)
        source_at(live, live->at)->ops->close(source_at(live, live->at));
    live->at = live->n_rungs;
}

static void
live_wake(vg_collector *collector)
{
    struct live *live = (struct live *)collector;
    uint64_t one = 1;

    while (write(live->wake_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

static void
free_live(vg_collector *collector)
{
    struct live *live = (struct live *)collector;

    for (unsigned i = 0; i < live->n_rungs; i++) {
        vg_cpu_source_free(source_at(live, i));
        g_clear_error(&live->rungs[i].problem);
    }
    vg_proc_scan_free(live->scan);
    vg_live_host_clear(&live->host);
    vg_window_grid_unref(live->grid);
    vg_cpu_limits_free(live->limits);
    g_free(live->proc);
    g_array_unref(live->hints);
    g_free(live->reported.text);
    if (live->wake_fd >= 0)
        close(live->wake_fd);
    g_free(live);
}

static const struct vg_collector_ops live_ops = {
    .name = "live",
    .measures_windows = true,
    .run = live_run,
    .wake = live_wake,
    .free = free_live,
};

vg_collector *
vg_live_new(const struct vg_live_options *options, vg_cpu_source *const *take_sources,
            unsigned n_sources)
{
    struct live *live = g_new0(struct live, 1);

    if (n_sources == 0 || n_sources > VG_LIVE_SOURCES_MAX)
        vg_bug("a ladder of %u sources", n_sources);
    live->base.ops = &live_ops;
    live->grid =
        options->grid ? vg_window_grid_ref(options->grid) : vg_window_grid_new(options->window_ns);
    live->budget = options->budget;
    live->retry_ns = options->retry_ns > 0 ? options->retry_ns : RETRY_NS;
    live->patience_ns = options->patience_ns > 0 ? options->patience_ns : PATIENCE_NS;
    live->cheap_wait_ns = live->patience_ns;
    live->proc = g_strdup(options->proc);
    live->scan = vg_proc_scan_new(options->proc);
    live->limits = vg_cpu_limits_new(live->proc, CGROUP);
    vg_live_host_init(&live->host, live->proc, CGROUP, "/sys");
    for (unsigned i = 0; i < n_sources; i++) {
        if (take_sources[i]->ops->levels == 0 || take_sources[i]->ops->levels > LEVELS_MAX)
            vg_bug("%s has %u levels", take_sources[i]->ops->name, take_sources[i]->ops->levels);
        live->rungs[i].source = take_sources[i];
    }
    live->n_rungs = n_sources;
    live->at = n_sources;
    live->hints = g_array_new(FALSE, FALSE, sizeof(struct vg_cpu_hint));
    live->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return &live->base;
}
