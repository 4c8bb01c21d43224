/* SPDX-License-Identifier: Apache-2.0
 *
 * The second rung of the ladder: perf events of the scheduler's tracepoints on every CPU, merged by
 * time and accounted by the ledger that also processes recordings. It sees what the BPF programs
 * see. However, it has to read every event of the host, and loses events that come faster than it
 * reads them.
 *
 * perf-events opens tracepoints for any user. perf-ring returns the records of a CPU. perf-merge
 * makes one sequence of the events of all CPUs, with the adapters (their field reader is
 * trace/perf-format). ledger/cpu-ledger accounts the events. perf-watch combines the ledger's
 * results with the scan of /proc. This file drives them.
 *
 * The ledger is always SLACK_NS behind, so that no CPU is still writing an earlier record. The
 * topology knows only the VMs of the scan.
 */
#include "config.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sched.h>

#include "base/clock.h"
#include "base/error.h"
#include "collectors/cpu-source.h"
#include "collectors/guest-silence.h"
#include "collectors/perf-events.h"
#include "collectors/perf-merge.h"
#include "collectors/perf-watch.h"
#include "host/pid-namespace.h"
#include "host/proc-scan.h"
#include "ledger/cpu-ledger.h"

#define NAME "perf"

/* A record is in its ring this long after its timestamp, whatever interrupted the write. */
#define SLACK_NS VG_NS_PER_MS
/* Sizes in bytes of each CPU's ring, and of all rings together. At 100 bytes per record, 512 KiB
 * hold about 1,700 switches with their wakeups. */
#define RING_BYTES  (512 * 1024)
#define RINGS_BYTES (64 * 1024 * 1024)
/* After this many windows and switches without a gap, the expensive search for gaps stops. It
 * starts again if one in GAPS_A_SWITCH switches has a gap. */
#define CLEAN_WINDOWS  3
#define CLEAN_SWITCHES 1000
#define GAPS_A_SWITCH  64
/* The number of threads checked for existence in each window. Otherwise, if the record of its end
 * was lost, a thread would stay in the ledger indefinitely. */
#define SWEEP_THREADS 64

#define KVM_MODULE "/sys/module/kvm"

static const struct vg_perf_tracepoint tracepoints[] = {
    {"sched/sched_switch", false},     {"sched/sched_wakeup", false},
    {"sched/sched_wakeup_new", false}, {"sched/sched_migrate_task", false},
    {"kvm/kvm_entry", true},           {"kvm/kvm_exit", true},
};

static const struct vg_perf_set tracepoint_set = {
    .tracepoints = tracepoints,
    .n = G_N_ELEMENTS(tracepoints),
    .arrivals = true,
    .ring_bytes = RING_BYTES,
    .all_bytes = RINGS_BYTES,
};

enum { LEVEL_ALL, LEVEL_NO_GUESTS, LEVELS };

struct source {
    struct vg_cpu_source base; /* first */
    char *proc;
    int64_t tick_ns;
    unsigned level;
    vg_perf_merge *merge;
    vg_perf_events *events; /* NULL: closed */
    bool had_kvm;           /* the module was loaded before the events were opened */
    vg_topology *topology;
    vg_cpu_ledger *ledger;
    vg_perf_watch *watch;
    int64_t fed_ns; /* end of what the ledger contains */
    struct vg_perf_counts reported;
    uint64_t windows; /* since it was opened */
    unsigned clean_windows;
    uint64_t clean_switches;
    uint32_t swept; /* index of the next thread to check */
    struct vg_guest_silence silence;
};

/* ---- events ---- */

/* Feeds all events up to this time into the ledger. */
static void
feed(struct source *s, int64_t until_ns)
{
    struct vg_event event;

    vg_perf_merge_look(s->merge, vg_perf_events_lost, s->events);
    while (vg_perf_merge_next(s->merge, until_ns, &event)) {
        vg_perf_watch_settle(s->watch, s->ledger, event.ts_ns);
        vg_cpu_ledger_feed(s->ledger, &event);
    }
    vg_perf_merge_release(s->merge);
    s->fed_ns = MAX(s->fed_ns, until_ns);
    vg_perf_watch_settle(s->watch, s->ledger, s->fed_ns);
}

static void
drain(vg_cpu_source *source)
{
    feed((struct source *)source, vg_clock_monotonic_ns() - SLACK_NS);
}

static void
end_thread(struct source *s, int32_t tid)
{
    const struct vg_event end = {
        .ts_ns = s->fed_ns,
        .type = VG_EVENT_PROCESS_END,
        .cpu = VG_NONE,
        .tid = VG_NONE,
        .pid = VG_NONE,
        .process = {.tid = tid, .pid = VG_NONE},
    };

    vg_cpu_ledger_feed(s->ledger, &end);
}

static bool
is_there(int32_t tid)
{
    return sched_getscheduler(tid) >= 0 || errno != ESRCH;
}

static void
sweep(struct source *s)
{
    uint32_t count = vg_topology_thread_count(s->topology);

    for (uint32_t i = 0; i < MIN(count, SWEEP_THREADS); i++) {
        if (s->swept >= count)
            s->swept = 0;
        const struct vg_thread *thread = vg_topology_thread_at(s->topology, s->swept++);
        if (thread && !thread->ended && !is_there(thread->tid))
            end_thread(s, thread->tid);
    }
}

/* Ends the remaining threads of a VM that no longer exists. */
static void
end_process(void *data, int32_t pid)
{
    struct source *s = data;

    for (uint32_t i = 0; i < vg_topology_thread_count(s->topology); i++) {
        const struct vg_thread *thread = vg_topology_thread_at(s->topology, i);
        if (thread && !thread->ended && vg_thread_process(thread)->pid == pid)
            end_thread(s, thread->tid);
    }
}

/* ---- the quality of what comes ---- */

/* Turns arrivals on if switches are missing. They record each switch a second time, so they are
 * turned off when they prove useless. */
static int
check_gaps(struct source *s, GError **err)
{
    const struct vg_perf_counts *counts = vg_perf_merge_counts(s->merge);
    uint64_t switches = counts->switches - s->reported.switches;
    uint64_t gaps = counts->gaps - s->reported.gaps;

    if (!vg_perf_events_see_arrivals(s->events))
        return gaps * GAPS_A_SWITCH > switches
                   ? vg_perf_events_switch_arrivals(s->events, true, err)
                   : 0;
    if (gaps > 0) {
        s->clean_windows = 0;
        s->clean_switches = 0;
        return 0;
    }
    s->clean_windows++;
    s->clean_switches += switches;
    return s->clean_windows >= CLEAN_WINDOWS && s->clean_switches >= CLEAN_SWITCHES
               ? vg_perf_events_switch_arrivals(s->events, false, err)
               : 0;
}

static void
perf_describe(struct source *s, const struct vg_window *window, struct vg_provenance *ret)
{
    const struct vg_perf_counts *counts = vg_perf_merge_counts(s->merge);
    uint64_t records = counts->records - s->reported.records;
    double seen = (double)records, lost = (double)window->lost_events;

    ret->confidence = seen + lost > 0 ? seen / (seen + lost) : 1;
    vg_provenance_set_all(ret, NAME, ret->confidence);
    if (lost > 0)
        ret->measures[VG_MEASURE_RUN].reason = "events came faster than they were read";
    ret->cost_ns = (int64_t)records * VG_PERF_RECORD_NS;
    vg_guest_silence_describe(&s->silence,
                              s->level >= LEVEL_NO_GUESTS               ? VG_GUESTS_LEFT_OUT
                              : !vg_perf_events_see_optional(s->events) ? VG_GUESTS_NO_KVM
                                                                        : VG_GUESTS_SEEN,
                              ret);
}

/* Fails if no records came: at least this thread was switched to. */
static int
perf_check(const struct source *s, GError **err)
{
    if (s->windows > 0 && vg_perf_merge_counts(s->merge)->records == s->reported.records)
        return vg_error(err, VG_E_EXTERNAL, "the kernel no longer writes perf events");
    return 0;
}

/* ---- windows ---- */

static void
wait_until(int64_t t_ns)
{
    const struct timespec at = {.tv_sec = t_ns / VG_NS_PER_S, .tv_nsec = t_ns % VG_NS_PER_S};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        continue;
}

/* Moves the ledger's results into the window. */
static void
perf_close_window(struct source *s, int64_t end_ns, struct vg_window *window)
{
    struct vg_window read;

    vg_cpu_ledger_close_window(s->ledger, end_ns, false, &read);
    GArray *vms = window->vms;
    window->vms = read.vms;
    read.vms = vms;
    window->lost_events += read.lost_events;
    window->discontinuities +=
        read.discontinuities + vg_perf_merge_counts(s->merge)->rejected - s->reported.rejected;
    vg_window_clear(&read);
}

static void
perf_release(struct source *s)
{
    g_clear_pointer(&s->events, vg_perf_events_free);
    g_clear_pointer(&s->merge, vg_perf_merge_free);
    g_clear_pointer(&s->ledger, vg_cpu_ledger_free);
    g_clear_pointer(&s->topology, vg_topology_free);
    g_clear_pointer(&s->watch, vg_perf_watch_free);
}

static void
perf_close_source(vg_cpu_source *source)
{
    perf_release((struct source *)source);
}

static int
perf_open_source(vg_cpu_source *source, GError **err)
{
    struct source *s = (struct source *)source;

    if (vg_pid_namespace_check(s->proc, err) < 0)
        return -1;
    s->had_kvm = access(KVM_MODULE, F_OK) == 0;
    const char *tracefs = vg_tracefs_root(err);
    if (!tracefs)
        return -1;
    s->merge = vg_perf_merge_new();
    s->events =
        vg_perf_events_open(s->merge, tracefs, &tracepoint_set, s->level < LEVEL_NO_GUESTS, err);
    if (!s->events)
        return -1;
    s->topology = vg_topology_new();
    vg_topology_only_declared(s->topology);
    s->ledger = vg_cpu_ledger_new(s->topology);
    vg_cpu_ledger_windows_only(s->ledger, true);
    s->watch = vg_perf_watch_new(s->proc, s->tick_ns);
    s->fed_ns = vg_clock_monotonic_ns();
    vg_cpu_ledger_begin(s->ledger, s->fed_ns);
    s->reported = (struct vg_perf_counts){0};
    s->silence = (struct vg_guest_silence){0};
    s->windows = 0;
    s->clean_windows = 0;
    s->clean_switches = 0;
    return 0;
}

static int
perf_watch(vg_cpu_source *source, const GPtrArray *vms, vg_thread *self, GError **err)
{
    struct source *s = (struct source *)source;

    (void)err;
    vg_perf_watch_see(s->watch, s->topology, vms, self);
    return 0;
}

static bool
has_kvm_come(const struct source *s)
{
    return !s->had_kvm && access(KVM_MODULE, F_OK) == 0;
}

/* Opens the events again if KVM was loaded after them, so that they see it. */
static int
restart(struct source *s, const GPtrArray *vms, vg_thread *self, GError **err)
{
    perf_release(s);
    return perf_open_source(&s->base, err) < 0 ? -1 : perf_watch(&s->base, vms, self, err);
}

static int
perf_read_source(vg_cpu_source *source, const GPtrArray *vms, vg_thread *self,
                 struct vg_window *window, struct vg_provenance *provenance, GError **err)
{
    struct source *s = (struct source *)source;
    int64_t end_ns = MAX(window->end_ns, s->fed_ns);

    vg_perf_watch_see(s->watch, s->topology, vms, self);
    wait_until(end_ns + SLACK_NS);
    feed(s, end_ns);
    if (perf_check(s, err) < 0 || vg_perf_events_follow_cpus(s->events, err) < 0)
        return -1;
    vg_perf_watch_assume(s->watch, s->ledger);
    perf_close_window(s, end_ns, window);
    vg_perf_watch_finish(s->watch, window, &s->silence, vg_perf_events_see_optional(s->events));
    perf_describe(s, window, provenance);
    if (check_gaps(s, err) < 0)
        return -1;
    s->reported = *vg_perf_merge_counts(s->merge);
    s->windows++;
    if (window->lost_events > 0)
        vg_perf_watch_begin_anew(s->watch);
    vg_perf_watch_forget_gone(s->watch, end_process, s);
    sweep(s);
    return has_kvm_come(s) ? restart(s, vms, self, err) : 0;
}

static int
drain_fd(const vg_cpu_source *source)
{
    return vg_perf_events_fd(((const struct source *)source)->events);
}

static int
set_level(vg_cpu_source *source, unsigned level, GError **err)
{
    struct source *s = (struct source *)source;

    s->level = level;
    return s->events ? vg_perf_events_switch_optional(s->events, level < LEVEL_NO_GUESTS, err) : 0;
}

static void
perf_free_source(vg_cpu_source *source)
{
    struct source *s = (struct source *)source;

    perf_release(s);
    g_free(s->proc);
    g_free(s);
}

static const struct vg_cpu_source_ops perf_ops = {
    .name = NAME,
    .levels = LEVELS,
    .open = perf_open_source,
    .close = perf_close_source,
    .watch = perf_watch,
    .read = perf_read_source,
    .drain_fd = drain_fd,
    .drain = drain,
    .set_level = set_level,
    .free = perf_free_source,
};

vg_cpu_source *
vg_source_perf_new(const char *proc)
{
    struct source *s = g_new0(struct source, 1);

    s->base.ops = &perf_ops;
    s->proc = g_strdup(proc);
    s->tick_ns = VG_NS_PER_S / MAX(sysconf(_SC_CLK_TCK), 1);
    return &s->base;
}
