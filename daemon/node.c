/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/node.h"

#include <string.h>

#include <malloc.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/thread.h"
#include "daemon/alert-config.h"
#include "daemon/past-days.h"
#include "daemon/trace.h"
#include "daemon/vm-names.h"
#include "engine/engine.h"
#include "engine/gather.h"
#include "host/host-facts.h"
#include "model/lost-series.h"
#include "model/window-sum.h"

#define VG_LOG_TAG "engine"

/* A replay makes thousands of windows per second, but not as many views are needed. */
#define PUBLISH_PAUSE_NS (50 * VG_NS_PER_MS)

/* The interval at which freed memory is returned to the system. */
#define TRIM_PAUSE_NS (60 * VG_NS_PER_S)

/* The interval of reading this host's memory. */
#define FACTS_PAUSE_NS (10 * VG_NS_PER_S)

struct vg_node {
    char *host;
    bool replay;
    bool libvirt_is_here;
    bool elsewhere; /* whether another machine is measured */
    bool replay_ended;
    int64_t window_ns;
    char boot_id[VG_UUID_LEN];
    int64_t started_ns;   /* epoch */
    int64_t closed_at_ns; /* CLOCK_MONOTONIC, when the last window was closed */
    vg_store *store;
    uint64_t memory_windows;
    uint64_t most_pending; /* the maximum number of windows waiting for the disk, as traced */
    vg_event_log *events;
    vg_reservations *reservations;
    vg_measuring *measuring;
    vg_engine *engine;
    vg_past_days *past_days; /* NULL after the engine has taken them */
    vg_alerts *alerts;
    vg_gather *gather;
    vg_inventory *inventory; /* libvirt's last inventory, or NULL */
    vg_vm_names *names;
    vg_inventory *facts; /* the information about this host that does not come from libvirt */
    int64_t facts_at_ns; /* CLOCK_MONOTONIC */
    int32_t cpus;        /* the number of CPUs seen in a recording or on another host */
    char *note;          /* a note for the snapshot */
    struct vg_window totals;
    vg_lost_series *lost_series;
    struct vg_gathered newest; /* window.vms is NULL before the first window */
    vg_gpu_log *gpu_log;       /* NULL before the first GPU request */
    uint64_t missed;           /* windows that no collector measured or read in time */
    int64_t stored_ns;         /* epoch, the end of the newest stored window */
    int64_t trimmed_at_ns;     /* CLOCK_MONOTONIC */
    bool unpublished;
    int64_t published_at_ns; /* CLOCK_MONOTONIC */
    uint64_t seq;
    atomic_bool maintenance;
    _Atomic int64_t proxy_stop_ns; /* a mean, or 0 if none was measured */
    bool published_maintenance;    /* the state in the newest view */
    pthread_mutex_t lock;          /* protects view */
    vg_view *view;
};

static void publish(vg_node *node);

vg_node *
vg_node_new(const struct vg_node_options *options)
{
    vg_node *node = g_new0(vg_node, 1);
    g_autofree char *uuid = g_uuid_string_random();

    node->host = g_strdup(options->host);
    node->replay = options->replay;
    node->libvirt_is_here = options->libvirt_is_here;
    node->elsewhere = options->elsewhere;
    node->window_ns = options->window_ns;
    g_strlcpy(node->boot_id, uuid, sizeof(node->boot_id));
    node->started_ns = vg_clock_realtime_ns();
    node->closed_at_ns = node->trimmed_at_ns = vg_clock_monotonic_ns();
    node->store = options->store;
    node->memory_windows = options->memory_windows;
    node->events = options->events;
    node->reservations = options->reservations;
    node->measuring = options->measuring;
    node->engine =
        vg_engine_new(options->policy, options->replay ? VG_ENGINE_MEAN : VG_ENGINE_LIVE);
    if (!options->replay)
        node->past_days = vg_past_days_new(node->store, node->started_ns);
    node->alerts = vg_alerts_new(NULL, 0);
    node->names = vg_vm_names_new(options->replay || options->elsewhere ? NULL : "/proc");
    node->gather = vg_gather_new(options->window_ns);
    node->stored_ns = INT64_MIN;
    vg_window_init(&node->totals, false);
    node->lost_series = vg_lost_series_new(options->aggressors);
    pthread_mutex_init(&node->lock, NULL);
    publish(node);
    return node;
}

void
vg_node_free(vg_node *node)
{
    if (!node)
        return;
    vg_view_unref(node->view);
    vg_window_clear(&node->totals);
    vg_lost_series_free(node->lost_series);
    vg_window_clear(&node->newest.window);
    vg_past_days_free(node->past_days);
    vg_engine_free(node->engine);
    vg_alerts_free(node->alerts);
    vg_gather_free(node->gather);
    vg_gpu_log_unref(node->gpu_log);
    vg_inventory_free(node->inventory);
    vg_vm_names_free(node->names);
    vg_inventory_free(node->facts);
    pthread_mutex_destroy(&node->lock);
    g_free(node->note);
    g_free(node->host);
    g_free(node);
}

unsigned int
vg_node_add_source(vg_node *node, int64_t lag_ns)
{
    unsigned int source = vg_gather_add_source(node->gather);

    vg_gather_set_lag(node->gather, source, lag_ns);
    return source;
}

void
vg_node_set_alive(vg_node *node, unsigned int source, bool alive)
{
    vg_gather_set_alive(node->gather, source, alive);
}

void
vg_node_set_policy(vg_node *node, const struct vg_policy_config *policy)
{
    vg_engine_set_config(node->engine, policy);
}

int64_t
vg_node_age_ns(const vg_node *node)
{
    return vg_clock_monotonic_ns() - node->closed_at_ns;
}

bool
vg_node_replay_ended(const vg_node *node)
{
    return node->replay_ended;
}

bool
vg_node_has_inventory(const vg_node *node)
{
    return node->inventory != NULL;
}

const char *
vg_node_boot_id(const vg_node *node)
{
    return node->boot_id;
}

vg_view *
vg_node_view(vg_node *node)
{
    VG_LOCK_SCOPE(&node->lock);
    return vg_view_ref(node->view);
}

/* ---- publishing ---- */

/* Returns the inventory to show: libvirt's, completed with the information about this host. */
static vg_inventory *
show_inventory(vg_node *node)
{
    vg_inventory *shown = node->inventory ? vg_record_copy(&vg_inventory_record, node->inventory)
                                          : vg_inventory_new(node->host);

    g_free(shown->host);
    shown->host = g_strdup(node->host);
    if (node->replay || node->elsewhere) {
        shown->cpus = node->cpus;
        return shown;
    }
    int64_t now = vg_clock_monotonic_ns();
    if (!node->facts || now - node->facts_at_ns >= FACTS_PAUSE_NS) {
        vg_inventory_free(node->facts);
        node->facts = vg_inventory_new(node->host);
        vg_host_facts_read(node->facts);
        node->facts_at_ns = now;
    }
    vg_host_facts_complete(node->facts, node->libvirt_is_here, shown);
    return shown;
}

/* The same recording must give the same snapshot, whatever is stored. */
static int64_t
node_store_bytes(const vg_node *node)
{
    struct vg_store_health health;

    if (node->replay)
        return 0;
    vg_store_read_health(node->store, &health);
    return MAX(health.bytes, 0);
}

/* Creates a snapshot. Omits the descriptions of hosts if they contradict each other. */
static vg_snapshot *
make_snapshot(vg_node *node, const vg_inventory *inventory, const GPtrArray *taken)
{
    const struct vg_engine_part part = {
        .source = node->replay ? VG_SOURCE_TRACE : VG_SOURCE_LIVE,
        .note = node->note,
        .clock_offset_ns = node->newest.clock_offset_ns,
        .unmeasured = "libvirt lists it, but no source measures it",
        .described = node->inventory != NULL,
    };
    g_autoptr(vg_snapshot) description = vg_snapshot_new(part.source);
    struct vg_snap_host *host = vg_snapshot_add_host(description, node->host);
    const struct vg_snap_host *const hosts[] = {host};
    g_autoptr(GError) error = NULL;

    vg_inventory_describe(inventory, taken, host);
    node->published_maintenance = atomic_load(&node->maintenance);
    host->maintenance = node->published_maintenance;
    host->proxy_stop_ns = atomic_load(&node->proxy_stop_ns);
    host->store_bytes = node_store_bytes(node);
    host->names_gpus = host->takes_acts = !node->replay;
    vg_snapshot *snapshot = vg_engine_snapshot(node->engine, &part, hosts, 1, &error);
    if (snapshot)
        return snapshot;
    vg_log_warn_limited("the inventory is left out of the snapshot reason=\"%s\"", error->message);
    g_clear_error(&error);
    g_autoptr(vg_snapshot) plain = vg_snapshot_new(part.source);
    struct vg_snap_host *bare_host = vg_snapshot_add_host(plain, node->host);
    const struct vg_snap_host *const bare[] = {bare_host};
    bare_host->maintenance = host->maintenance;
    snapshot = vg_engine_snapshot(node->engine, &part, bare, 1, &error);
    if (!snapshot)
        vg_bug("no snapshot can be made: %s", error->message);
    return snapshot;
}

static vg_view *
make_view(vg_node *node)
{
    vg_view *view = vg_view_new();
    struct vg_gather_stats stats;

    vg_gather_read_stats(node->gather, &stats);
    view->seq = ++node->seq;
    view->boot_id = node->boot_id;
    view->replay = node->replay;
    view->replay_ended = node->replay_ended;
    view->made_ns = vg_clock_realtime_ns();
    view->started_ns = node->started_ns;
    view->window_ns = node->window_ns;
    view->windows = stats.windows;
    view->late = stats.late;
    view->duplicates = stats.duplicates;
    view->missed = node->missed;
    view->inventory = show_inventory(node);
    g_autoptr(GPtrArray) taken = vg_reservations_taken(node->reservations);
    g_ptr_array_unref(view->gpu_parts);
    view->gpu_parts = vg_gpu_parts(view->inventory, taken);
    view->snapshot = make_snapshot(node, view->inventory, taken);
    vg_view_make_labels(view);
    vg_alerts_list(node->alerts, view->alerts);
    view->alert_rules = vg_alerts_count_rules(node->alerts);
    view->alerts_doubt = g_strdup(vg_alerts_read_doubt(node->alerts));
    view->gpu_log = vg_gpu_log_ref(node->gpu_log);
    vg_window_copy(&view->totals, &node->totals);
    view->lost_series = vg_lost_series_list(node->lost_series);
    if (node->newest.window.vms) {
        view->provenance = node->newest.provenance;
        view->clock_offset_ns = node->newest.clock_offset_ns;
        vg_window_copy(&view->newest, &node->newest.window);
    } else {
        vg_window_init(&view->newest, false);
    }
    return view;
}

static void
node_report_view(vg_node *node, const vg_view *view)
{
    json_object *data = json_object_new_object();

    vg_json_add_int64(data, "view", (int64_t)view->seq);
    vg_json_add_int64(data, "windows", (int64_t)view->windows);
    vg_json_add_int64(data, "end_ns", view->newest.end_ns + view->clock_offset_ns);
    vg_json_add_int64(data, "vms", view->newest.vms->len);
    vg_event_log_add(node->events, "window", data);
}

static void
publish(vg_node *node)
{
    vg_view *view = make_view(node), *old;

    pthread_mutex_lock(&node->lock);
    old = node->view;
    node->view = view;
    pthread_mutex_unlock(&node->lock);
    vg_trace_scores(old, view);
    if (old && old->windows != view->windows)
        node_report_view(node, view);
    vg_view_unref(old);
    node->unpublished = false;
    node->published_at_ns = vg_clock_monotonic_ns();
}

static void
publish_if_due(vg_node *node)
{
    if (node->unpublished &&
        (!node->replay || vg_clock_monotonic_ns() - node->published_at_ns >= PUBLISH_PAUSE_NS))
        publish(node);
}

/* ---- windows ---- */

/* Lists the VMs that are only in the first window, borrowed. The caller frees the array. */
static GPtrArray *
only_in(const struct vg_window *these, const struct vg_window *those)
{
    GPtrArray *only = g_ptr_array_new();

    for (guint i = 0; these->vms && i < these->vms->len; i++) {
        struct vg_vm_sample *vm = &g_array_index(these->vms, struct vg_vm_sample, i);
        if (!those->vms || !vg_window_vm(those, vm->id))
            g_ptr_array_add(only, vm);
    }
    return only;
}

void
vg_node_note_proxy_stop(vg_node *node, int64_t stop_ns)
{
    const int64_t before_ns = atomic_load(&node->proxy_stop_ns);

    atomic_store(&node->proxy_stop_ns, before_ns > 0 ? (before_ns + stop_ns) / 2 : stop_ns);
}

void
vg_node_set_maintenance(vg_node *node, bool maintenance)
{
    atomic_store(&node->maintenance, maintenance);
}

void
vg_node_set_alerts(vg_node *node, const struct vg_alert_rule *rules, size_t n_rules)
{
    if (vg_alerts_same(node->alerts, rules, n_rules))
        return;
    vg_alerts_end(node->alerts, "the configuration has changed", vg_alert_report, node->events);
    vg_alerts_free(node->alerts);
    node->alerts = vg_alerts_new(rules, n_rules);
    node->unpublished = true;
}

vg_alerts *
vg_node_alerts(vg_node *node)
{
    return node->alerts;
}

static void
node_report_vms(vg_node *node, const char *what, const GPtrArray *vms)
{
    for (guint i = 0; i < vms->len; i++) {
        const struct vg_vm_sample *vm = vms->pdata[i];
        vg_vm_names_log(node->names, node->events, what, vm->name, vm->uuid, vm->pid, "collector");
    }
}

/* Publishes a view before it reports VMs, so that a client can query a reported VM. */
static void
node_report_changes(vg_node *node, const struct vg_window *before, const struct vg_window *now)
{
    g_autoptr(GPtrArray) gone = only_in(before, now);
    g_autoptr(GPtrArray) seen = only_in(now, before);

    if (gone->len + seen->len > 0)
        publish(node);
    node_report_vms(node, "gone", gone);
    node_report_vms(node, "seen", seen);
}

/* Traces a new maximum of the store's queue. The queue grows only in this thread. */
static void
trace_store(vg_node *node)
{
    struct vg_store_health health;

    if (!vg_trace_is_on())
        return;
    vg_store_read_health(node->store, &health);
    if (health.pending <= node->most_pending)
        return;
    node->most_pending = health.pending;
    vg_trace_queue("store", health.pending, node->memory_windows);
}

/* Stores a window. It starts later if the jitter of the clock's offset would make it overlap the
 * previous window. If it also ends earlier, because the clock was set back, it replaces it. */
static void
store_window(vg_node *node, const struct vg_gathered *gathered)
{
    struct vg_window window = gathered->window;
    int64_t offset_ns = gathered->clock_offset_ns;
    int64_t end_ns = window.end_ns + offset_ns;

    if (end_ns > node->stored_ns && window.begin_ns + offset_ns < node->stored_ns)
        window.begin_ns = node->stored_ns - offset_ns;
    vg_store_put_window(node->store, &gathered->provenance, &window, offset_ns);
    node->stored_ns = end_ns;
    trace_store(node);
}

static void
take_window(vg_node *node, struct vg_gathered *take_gathered)
{
    struct vg_window *window = &take_gathered->window, before = node->newest.window;

    vg_trace_window(take_gathered, node->replay);
    if (node->inventory)
        vg_vm_names_match(node->names, node->inventory, window);
    vg_vm_names_part(window);
    vg_engine_step(node->engine, window, node->host);
    if (node->replay)
        vg_window_add(&node->totals, window);
    else
        vg_window_add_live(&node->totals, window);
    vg_lost_series_step(node->lost_series, window, node->replay);
    store_window(node, take_gathered);
    node->gpu_log = vg_gpu_log_add(node->gpu_log, window);
    g_array_set_size(window->gpu_requests, 0);
    vg_measuring_take(node->measuring, take_gathered);
    node->missed += take_gathered->provenance.missed + take_gathered->provenance.gpu_missed;
    if (window->programs_ns == 0 && before.vms)
        vg_window_copy_programs(window, &before);
    node->newest = *take_gathered;
    node->closed_at_ns = vg_clock_monotonic_ns();
    node->unpublished = true;
    node_report_changes(node, &before, window);
    vg_alerts_step(node->alerts, window, take_gathered->clock_offset_ns, vg_vm_names_find_sample,
                   node->names, vg_alert_report, node->events);
    vg_window_clear(&before);
}

static void
take_complete(vg_node *node, int64_t now_ns)
{
    struct vg_gathered gathered;

    while (vg_gather_next(node->gather, now_ns, &gathered))
        take_window(node, &gathered);
}

/* Returns the time on the windows' clock. The time of a recording advances only with its data. */
static int64_t
now_of_windows(const vg_node *node)
{
    return node->replay ? INT64_MIN / 2 : vg_clock_monotonic_ns();
}

/* Takes the number of clipped intervals from the recording: each window also clips at its edges. */
static void
take_edges(vg_node *node, const struct vg_window *period)
{
    for (guint i = 0; i < node->totals.vms->len; i++) {
        struct vg_vm_sample *vm = &g_array_index(node->totals.vms, struct vg_vm_sample, i);
        for (guint k = 0; k < period->vms->len; k++) {
            const struct vg_vm_sample *whole = &g_array_index(period->vms, struct vg_vm_sample, k);
            if (whole->pid != vm->pid || whole->vcpus->len != vm->vcpus->len)
                continue;
            vm->cpu.clipped = whole->cpu.clipped;
            for (guint v = 0; v < vm->vcpus->len; v++)
                g_array_index(vm->vcpus, struct vg_vcpu_sample, v).cpu.clipped =
                    g_array_index(whole->vcpus, struct vg_vcpu_sample, v).cpu.clipped;
        }
    }
}

static void
take_end(vg_node *node, const struct vg_report *report)
{
    json_object *data = json_object_new_object();

    node->replay_ended = true;
    if (report->text) {
        vg_log_warn("replay ended problems=\"%s\"", report->text);
        g_free(node->note);
        node->note = g_strdup_printf("host '%s': %s, so its figures may be too low", node->host,
                                     report->text);
    }
    take_complete(node, INT64_MAX);
    if (report->window.vms)
        take_edges(node, &report->window);
    publish(node);
    vg_json_add_string(data, "problems", report->text);
    vg_event_log_add(node->events, "replay-end", data);
}

void
vg_node_take(vg_node *node, unsigned int source, struct vg_report *take_report)
{
    g_autoptr(vg_report) report = take_report;

    node->cpus = MAX(node->cpus, report->cpus);
    switch (report->kind) {
    case VG_REPORT_WINDOW:
        vg_trace_lost_events(report->provenance.source, &report->window, report->clock_offset_ns);
        vg_gather_put(node->gather, source, &report->window, &report->provenance,
                      report->clock_offset_ns);
        take_complete(node, now_of_windows(node));
        break;
    case VG_REPORT_INVENTORY:
        vg_inventory_free(node->inventory);
        node->inventory = g_steal_pointer(&report->inventory);
        vg_vm_names_take(node->names, node->inventory);
        node->unpublished = true;
        break;
    case VG_REPORT_LIFECYCLE:
        vg_vm_names_log(node->names, node->events, report->text, report->vm, report->uuid, 0,
                        report->collector);
        break;
    case VG_REPORT_END:
        take_end(node, report);
        break;
    case VG_REPORT_STATUS:
    case VG_REPORT_KIND_MAX:
        break;
    }
    publish_if_due(node);
}

/* Returns freed memory to the system. Between used blocks, free() alone does not return it. */
static void
node_trim_memory(vg_node *node)
{
    const int64_t now_ns = vg_clock_monotonic_ns();

    if (now_ns - node->trimmed_at_ns < TRIM_PAUSE_NS)
        return;
    malloc_trim(0);
    node->trimmed_at_ns = now_ns;
}

static void
node_restore_days(vg_node *node)
{
    const vg_day_past *past = node->past_days ? vg_past_days_get(node->past_days) : NULL;

    if (past &&
        vg_engine_restore_days(node->engine, node->host, past, node->newest.clock_offset_ns))
        g_clear_pointer(&node->past_days, vg_past_days_free);
}

void
vg_node_tick(vg_node *node)
{
    node_trim_memory(node);
    take_complete(node, now_of_windows(node));
    node_restore_days(node);
    /* Publish this even if nothing is measured any more. */
    node->unpublished |= atomic_load(&node->maintenance) != node->published_maintenance;
    publish_if_due(node);
}

void
vg_node_flush(vg_node *node)
{
    g_clear_pointer(&node->past_days, vg_past_days_free);
    take_complete(node, INT64_MAX);
    if (node->unpublished)
        publish(node);
}
