/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/supervisor.h"

#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "daemon/trace.h"
#include "model/trouble.h"

#define VG_LOG_TAG "supervisor"

/* The maximum number of waiting reports. A live collector sends one per window. In a replay, these
 * reports add to the windows that wait for the disk. */
#define QUEUE_MAX        256
#define REPLAY_QUEUE_MAX 2

/* The time between two checks by a replay that waits for the disk. */
#define BACKLOG_PAUSE VG_NS_PER_MS

/* The time for a thread to end, and the interval of checks. */
#define STOP_LIMIT_NS (3 * VG_NS_PER_S)
#define STOP_PAUSE_US 2000

struct member {
    vg_supervisor *supervisor;
    vg_collector *collector;
    vg_thread *thread; /* the main thread's reference */
    vg_thread *self;   /* the member's own reference */
    char *part;        /* for example "collector:procfs" */
    unsigned int source;
    enum vg_collector_state state;
    int64_t since_ns;        /* epoch, when it entered that state, or started or stopped hanging */
    enum vg_trouble trouble; /* the code of the reason */
    char *text;              /* the reason of the state, or NULL */
    GPtrArray *sources;      /* struct vg_source_state *, or NULL */
    bool hangs;
    bool optional;
    bool has_worked;
};

struct vg_supervisor {
    struct vg_supervisor_options options;
    vg_queue *queues[VG_SUPERVISOR_QUEUES];
    pthread_mutex_t lock; /* protects members, and their state, text and hangs */
    GPtrArray *members;
};

static void
free_report(void *report)
{
    vg_report_free(report);
}

/* Traces a new maximum of a queue. Called on the thread that adds a report. */
static void
trace_windows(void *data, size_t length)
{
    const vg_supervisor *supervisor = data;

    vg_trace_queue("windows", length, supervisor->options.replay ? REPLAY_QUEUE_MAX : QUEUE_MAX);
}

static void
trace_control(void *data, size_t length)
{
    (void)data;
    vg_trace_queue("control", length, QUEUE_MAX);
}

vg_supervisor *
vg_supervisor_new(const struct vg_supervisor_options *options)
{
    vg_supervisor *supervisor = g_new0(vg_supervisor, 1);

    supervisor->options = *options;
    supervisor->queues[VG_SUPERVISOR_WINDOWS] =
        vg_queue_new(options->replay ? REPLAY_QUEUE_MAX : QUEUE_MAX,
                     options->replay ? VG_QUEUE_BLOCK : VG_QUEUE_DROP, free_report);
    supervisor->queues[VG_SUPERVISOR_CONTROL] =
        vg_queue_new(QUEUE_MAX, VG_QUEUE_BLOCK, free_report);
    vg_queue_watch_high_water(supervisor->queues[VG_SUPERVISOR_WINDOWS], trace_windows, supervisor);
    vg_queue_watch_high_water(supervisor->queues[VG_SUPERVISOR_CONTROL], trace_control, NULL);
    supervisor->members = g_ptr_array_new();
    pthread_mutex_init(&supervisor->lock, NULL);
    return supervisor;
}

static void
free_member(struct member *member)
{
    vg_thread_free(member->thread);
    vg_collector_free(member->collector);
    g_free(member->part);
    g_free(member->text);
    if (member->sources)
        g_ptr_array_unref(member->sources);
    g_free(member);
}

void
vg_supervisor_free(vg_supervisor *supervisor)
{
    if (!supervisor)
        return;
    for (guint i = 0; i < supervisor->members->len; i++)
        free_member(supervisor->members->pdata[i]);
    g_ptr_array_unref(supervisor->members);
    for (int i = 0; i < VG_SUPERVISOR_QUEUES; i++)
        vg_queue_free(supervisor->queues[i]);
    pthread_mutex_destroy(&supervisor->lock);
    g_free(supervisor);
}

/* ---- on the collectors' threads ---- */

/* Delays a collector that reads a recording at full speed until the disk has caught up. */
static void
wait_for_store(struct member *member)
{
    while (vg_store_backlog(member->supervisor->options.store) >
           member->supervisor->options.backlog_max) {
        if (!vg_thread_sleep_until(member->self, vg_clock_monotonic_ns() + BACKLOG_PAUSE))
            return;
    }
}

static void
put_report(void *data, struct vg_report *take_report)
{
    struct member *member = data;
    vg_supervisor *supervisor = member->supervisor;

    if (take_report->kind != VG_REPORT_WINDOW) {
        /* In a replay, this report may mark the end of the recording, so it must follow the
         * windows. */
        vg_queue_put(supervisor->queues[supervisor->options.replay ? VG_SUPERVISOR_WINDOWS
                                                                   : VG_SUPERVISOR_CONTROL],
                     take_report);
        return;
    }
    if (supervisor->options.replay)
        wait_for_store(member);
    vg_queue_put(supervisor->queues[VG_SUPERVISOR_WINDOWS], take_report);
}

static void
run_member(vg_thread *self, void *arg)
{
    struct member *member = arg;
    const struct vg_report_sink sink = {.put = put_report, .data = member};

    member->self = self;
    member->collector->ops->run(member->collector, self, &sink);
}

static void
wake_member(void *arg)
{
    struct member *member = arg;

    if (member->collector->ops->wake)
        member->collector->ops->wake(member->collector);
}

/* ---- on the main thread ---- */

int
vg_supervisor_add(vg_supervisor *supervisor, vg_collector *take_collector, bool optional,
                  GError **err)
{
    struct member *member = g_new0(struct member, 1);
    const struct vg_collector_ops *ops = take_collector->ops;
    g_autofree char *name = g_strdup_printf("col-%s", ops->name);

    member->supervisor = supervisor;
    member->collector = take_collector;
    member->optional = optional;
    member->since_ns = vg_clock_realtime_ns();
    member->part = g_strdup_printf("collector:%s", ops->name);
    if (ops->measures_windows)
        member->source = vg_node_add_source(supervisor->options.node, take_collector->lag_ns);
    vg_thread *thread = vg_thread_new(name, run_member, wake_member, member, err);
    if (!thread) {
        free_member(member);
        return -1;
    }
    VG_LOCK_SCOPE(&supervisor->lock);
    member->thread = thread;
    g_ptr_array_add(supervisor->members, member);
    return 0;
}

void
vg_supervisor_set_thread_limit(vg_supervisor *supervisor, int64_t thread_limit_ns)
{
    supervisor->options.thread_limit_ns = thread_limit_ns;
}

void
vg_supervisor_stop(vg_supervisor *supervisor, bool *ret_all_ended)
{
    int64_t until = vg_clock_monotonic_ns() + STOP_LIMIT_NS;

    *ret_all_ended = true;
    for (guint i = 0; i < supervisor->members->len; i++)
        vg_thread_stop(((struct member *)supervisor->members->pdata[i])->thread);
    for (guint i = 0; i < supervisor->members->len; i++) {
        struct member *member = supervisor->members->pdata[i];
        /* Emptying the queues lets waiting threads add their reports. */
        while (!vg_thread_ended(member->thread) && vg_clock_monotonic_ns() < until) {
            for (int queue = 0; queue < VG_SUPERVISOR_QUEUES; queue++)
                vg_supervisor_take(supervisor, queue, QUEUE_MAX);
            g_usleep(STOP_PAUSE_US);
        }
        if (vg_thread_ended(member->thread)) {
            vg_thread_join(member->thread);
            continue;
        }
        vg_log_warn("thread did not end; abandoning it thread=%s", vg_thread_name(member->thread));
        *ret_all_ended = false;
    }
    for (int queue = 0; queue < VG_SUPERVISOR_QUEUES; queue++) {
        vg_queue_close(supervisor->queues[queue]);
        while (vg_supervisor_take(supervisor, queue, QUEUE_MAX))
            continue;
    }
}

int
vg_supervisor_fd(const vg_supervisor *supervisor, enum vg_supervisor_queue queue)
{
    return vg_queue_fd(supervisor->queues[queue]);
}

static bool
gives_windows(const struct member *member)
{
    return !member->hangs && member->state != VG_COLLECTOR_FAILED &&
           member->state != VG_COLLECTOR_ENDED;
}

static const char *
state_name(const struct member *member)
{
    return member->hangs ? "failed" : vg_collector_state_names[member->state];
}

/* Returns the reason for a member's state, or NULL. The caller frees it. */
static char *
reason_of(const struct member *member)
{
    if (!member->hangs)
        return g_strdup(member->text);
    return g_strdup_printf("thread '%s' is unresponsive: it waits for a call that does not return",
                           vg_thread_name(member->thread));
}

static void
supervisor_report_state(const struct member *member)
{
    bool bad = member->hangs || member->state == VG_COLLECTOR_FAILED ||
               member->state == VG_COLLECTOR_DEGRADED;
    g_autofree char *reason = reason_of(member);
    json_object *data = json_object_new_object();

    vg_json_add_string(data, "part", member->part);
    vg_json_add_string(data, "state", state_name(member));
    vg_json_add_string(data, "reason", reason);
    vg_event_log_add(member->supervisor->options.events, "collector", data);
    vg_log(bad ? VG_LOG_WARN : VG_LOG_NOTICE, VG_LOG_TAG, "collector is %s name=%s reason=\"%s\"",
           state_name(member), member->collector->ops->name, reason ? reason : "");
    if (member->collector->ops->measures_windows)
        vg_node_set_alive(member->supervisor->options.node, member->source, gives_windows(member));
}

static struct member *
find_member(const vg_supervisor *supervisor, const char *collector)
{
    for (guint i = 0; i < supervisor->members->len; i++) {
        struct member *member = supervisor->members->pdata[i];
        if (strcmp(member->collector->ops->name, collector) == 0)
            return member;
    }
    return NULL;
}

bool
vg_supervisor_has_failed(const vg_supervisor *supervisor, const char *name)
{
    const struct member *member = find_member(supervisor, name);

    return member && member->state == VG_COLLECTOR_FAILED;
}

static void
take_status(vg_supervisor *supervisor, struct member *member, struct vg_report *report)
{
    pthread_mutex_lock(&supervisor->lock);
    if (member->state != report->state)
        member->since_ns = vg_clock_realtime_ns();
    member->state = report->state;
    member->trouble = report->trouble;
    member->has_worked = member->has_worked || report->state == VG_COLLECTOR_OK ||
                         report->state == VG_COLLECTOR_DEGRADED;
    g_free(member->text);
    member->text = g_steal_pointer(&report->text);
    if (member->sources)
        g_ptr_array_unref(member->sources);
    member->sources = g_steal_pointer(&report->sources);
    pthread_mutex_unlock(&supervisor->lock);
    supervisor_report_state(member);
    vg_report_free(report);
}

bool
vg_supervisor_take(vg_supervisor *supervisor, enum vg_supervisor_queue queue, unsigned int most)
{
    struct vg_report *report;
    unsigned int n = 0;

    while (n < most && (report = vg_queue_get(supervisor->queues[queue], 0))) {
        struct member *member = find_member(supervisor, report->collector);
        n++;
        if (!member)
            vg_report_free(report);
        else if (report->kind == VG_REPORT_STATUS)
            take_status(supervisor, member, report);
        else
            vg_node_take(supervisor->options.node, member->source, report);
    }
    return n > 0;
}

void
vg_supervisor_watch(vg_supervisor *supervisor)
{
    for (guint i = 0; i < supervisor->members->len; i++) {
        struct member *member = supervisor->members->pdata[i];
        bool hangs = vg_thread_silence_ns(member->thread) > supervisor->options.thread_limit_ns;
        if (hangs == member->hangs)
            continue;
        pthread_mutex_lock(&supervisor->lock);
        member->hangs = hangs;
        member->since_ns = vg_clock_realtime_ns();
        pthread_mutex_unlock(&supervisor->lock);
        supervisor_report_state(member);
    }
}

void
vg_supervisor_status(vg_supervisor *supervisor, GPtrArray *parts)
{
    VG_LOCK_SCOPE(&supervisor->lock);
    for (guint i = 0; i < supervisor->members->len; i++) {
        const struct member *member = supervisor->members->pdata[i];
        bool works = member->state == VG_COLLECTOR_OK || member->state == VG_COLLECTOR_DEGRADED ||
                     member->state == VG_COLLECTOR_ENDED;
        bool ready = !member->hangs && (works || (member->optional && !member->has_worked));
        struct vg_part_status *part =
            vg_part_status_new(member->part, state_name(member), ready, reason_of(member));
        part->trouble = member->hangs ? VG_TROUBLE_NONE : member->trouble;
        part->since_ns = member->since_ns;
        part->sources = vg_source_states_copy(member->sources);
        g_ptr_array_add(parts, part);
    }
}

void
vg_supervisor_read_stats(vg_supervisor *supervisor, struct vg_queue_stats *ret)
{
    struct vg_queue_stats control;

    vg_queue_read_stats(supervisor->queues[VG_SUPERVISOR_WINDOWS], ret);
    vg_queue_read_stats(supervisor->queues[VG_SUPERVISOR_CONTROL], &control);
    ret->length += control.length;
    ret->high_water = MAX(ret->high_water, control.high_water);
    ret->dropped += control.dropped;
}
