/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes Prometheus' text format 0.0.4. The number of VMs, devices and routes limits the number of
 * labels.
 */
#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "api/doc.h"
#include "api/metrics-text.h"
#include "api/route.h"
#include "api/stats.h"
#include "base/clock.h"
#include "model/lost-series.h"

/* A VM with its sums since the start of vgpud. */
struct row {
    const struct vg_snap_vm *vm;
    const struct vg_vm_sample *sample; /* NULL before the first window */
    char *labels;                      /* for example vm="..",uuid=".." */
};

static void
row_clear(void *data)
{
    g_free(((struct row *)data)->labels);
}

static GArray *
rows_of(const vg_view *view)
{
    GArray *rows = g_array_new(FALSE, FALSE, sizeof(struct row));

    g_array_set_clear_func(rows, row_clear);
    for (guint h = 0; h < view->snapshot->hosts->len; h++) {
        const struct vg_snap_host *host = view->snapshot->hosts->pdata[h];
        for (guint i = 0; i < host->vms->len; i++) {
            const struct vg_snap_vm *vm = host->vms->pdata[i];
            g_autofree char *name = vg_metrics_label("vm", vm->name);
            g_autofree char *uuid = vg_metrics_label("uuid", vm->uuid);
            struct row row = {vm, vg_view_sample(&view->totals, vm),
                              g_strconcat(name, ",", uuid, NULL)};
            g_array_append_val(rows, row);
        }
    }
    return rows;
}

static double
seconds(int64_t ns)
{
    return (double)ns / (double)VG_NS_PER_S;
}

/* Starts the family of a figure, and returns its name. The caller frees it. */
static char *
metrics_begin_figure(GString *out, const char *prefix, const struct vg_figure *figure)
{
    const bool is_time = figure->unit == VG_FIGURE_NS;
    const size_t length = strlen(figure->name) - (is_time ? strlen("_ns") : 0);
    char *name = g_strdup_printf("%s%.*s%s_total", prefix, (int)length, figure->name,
                                 is_time ? "_seconds" : "");

    vg_metrics_family(out, name, "counter", figure->help);
    return name;
}

/* Returns a figure from the structure at `values`. */
static double
metrics_figure(const struct vg_figure *figure, const void *values)
{
    const void *at = (const char *)values + figure->offset;

    return figure->unit == VG_FIGURE_NS ? seconds(*(const int64_t *)at)
                                        : (double)*(const uint64_t *)at;
}

static void
add_figures(GString *out, const GArray *rows)
{
    const struct vg_figure *figure;

    for (int k = 1; (figure = vg_figure_of_family(vg_cpu_figure_rows, vg_cpu_figure_rows_size, k));
         k++) {
        g_autofree char *name = metrics_begin_figure(out, "vgpud_vm_", figure);
        for (guint i = 0; i < rows->len; i++) {
            const struct row *row = &g_array_index(rows, struct row, i);
            if (row->sample && vg_figure_known(figure, row->sample->lacks) != VG_KNOWN_NOT)
                vg_metrics_value(out, name, row->labels, metrics_figure(figure, &row->sample->cpu));
        }
    }
}

static void
add_exits(GString *out, const GArray *rows)
{
    static const char name[] = "vgpud_vm_exits_total";

    vg_metrics_family(out, name, "counter", "Exits from the guest.");
    for (guint i = 0; i < rows->len; i++) {
        const struct row *row = &g_array_index(rows, struct row, i);
        for (int k = 0; row->sample && k < VG_EXIT_CLASS_MAX; k++) {
            if (row->sample->cpu.exits[k] == 0)
                continue;
            g_autofree char *class =
                vg_metrics_label("class", vg_exit_class_name((enum vg_exit_class)k));
            g_autofree char *labels = g_strconcat(row->labels, ",", class, NULL);
            vg_metrics_value(out, name, labels, (double)row->sample->cpu.exits[k]);
        }
    }
}

/* Adds what the VM lost to host classes, to itself and to its quota. */
static void
metrics_add_lost_to_classes(GString *out, const char *name, const struct row *row)
{
    for (guint k = 0; k < row->sample->lost_to->len; k++) {
        const struct vg_lost_to *lost = &g_array_index(row->sample->lost_to, struct vg_lost_to, k);
        if (lost->kind == VG_AGGRESSOR_VM)
            continue;
        g_autofree char *who = vg_metrics_label("aggressor", vg_aggressor_name(lost->kind));
        g_autofree char *labels = g_strconcat(row->labels, ",", who, NULL);
        vg_metrics_value(out, name, labels, seconds(lost->ns));
    }
}

static void
metrics_add_lost(GString *out, const vg_view *view, const GArray *rows)
{
    static const char name[] = "vgpud_vm_lost_seconds_total";
    const GArray *series = view->lost_series;

    vg_metrics_family(
        out, name, "counter",
        "Time that vCPUs waited while the aggressor had the CPU; other: VMs without a "
        "series of their own.");
    for (guint i = 0; i < rows->len; i++) {
        const struct row *row = &g_array_index(rows, struct row, i);
        if (!row->sample)
            continue;
        metrics_add_lost_to_classes(out, name, row);
        for (guint k = series ? vg_lost_series_find(series, row->sample->id) : 0;
             series && k < series->len; k++) {
            const struct vg_lost_serie *serie = &g_array_index(series, struct vg_lost_serie, k);
            if (serie->vm_id != row->sample->id)
                break;
            g_autofree char *who = vg_metrics_label(
                "aggressor", serie->aggressor ? serie->aggressor : VG_LOST_SERIES_OTHER);
            g_autofree char *labels = g_strconcat(row->labels, ",", who, NULL);
            vg_metrics_value(out, name, labels, seconds(serie->ns));
        }
    }
}

static void
add_gpus(GString *out, const GArray *rows)
{
    const struct vg_figure *figure;

    for (int k = 1; (figure = vg_figure_of_family(vg_gpu_figure_rows, vg_gpu_figure_rows_size, k));
         k++) {
        g_autofree char *name = metrics_begin_figure(out, "vgpud_vm_gpu_", figure);
        for (guint i = 0; i < rows->len; i++) {
            const struct row *row = &g_array_index(rows, struct row, i);
            for (guint g = 0; row->sample && g < row->sample->gpus->len; g++) {
                const struct vg_gpu_sample *gpu =
                    &g_array_index(row->sample->gpus, struct vg_gpu_sample, g);
                if (gpu->lacks & figure->lacks)
                    continue;
                g_autofree char *device = vg_metrics_label("device", gpu->device);
                g_autofree char *engine = vg_metrics_label("engine", gpu->engine);
                g_autofree char *labels = g_strconcat(row->labels, ",", device, ",", engine, NULL);
                vg_metrics_value(out, name, labels, metrics_figure(figure, gpu));
            }
        }
    }
}

/* Adds the requests that are open at the end of the newest window. */
static void
add_gpu_open(GString *out, const vg_view *view, const GArray *rows)
{
    static const struct {
        const char *name, *help;
        bool is_age;
    } families[] = {
        {"vgpud_newest_window_vm_gpu_open_requests",
         "Requests of the VM that were open at the end of the newest window, except those that a "
         "finished request follows; absent if unknown.",
         false},
        {"vgpud_newest_window_vm_gpu_open_oldest_seconds",
         "Age of the VM's oldest open request; absent if unknown.", true},
    };

    for (size_t k = 0; k < G_N_ELEMENTS(families); k++) {
        vg_metrics_family(out, families[k].name, "gauge", families[k].help);
        for (guint i = 0; i < rows->len; i++) {
            const struct row *row = &g_array_index(rows, struct row, i);
            const struct vg_vm_sample *sample = vg_view_sample(&view->newest, row->vm);
            for (guint g = 0; sample && g < sample->gpus->len; g++) {
                const struct vg_gpu_sample *gpu =
                    &g_array_index(sample->gpus, struct vg_gpu_sample, g);
                if (gpu->lacks & VG_GPU_NO_ONE_OPEN)
                    continue;
                g_autofree char *device = vg_metrics_label("device", gpu->device);
                g_autofree char *engine = vg_metrics_label("engine", gpu->engine);
                g_autofree char *labels = g_strconcat(row->labels, ",", device, ",", engine, NULL);
                vg_metrics_value(out, families[k].name, labels,
                                 families[k].is_age ? seconds(gpu->open_oldest_ns)
                                                    : (double)gpu->open);
            }
        }
    }
}

/* Adds percentiles of the newest window, which has none if no request ended in it. */
static void
add_gpu_latencies(GString *out, const vg_view *view, const GArray *rows)
{
    static const char name[] = "vgpud_newest_window_vm_gpu_latency_seconds";

    vg_metrics_family(out, name, "gauge",
                      "Time from queueing to the end of the VM's requests, in the newest window.");
    for (guint i = 0; i < rows->len; i++) {
        const struct row *row = &g_array_index(rows, struct row, i);
        const struct vg_vm_sample *sample = vg_view_sample(&view->newest, row->vm);
        for (guint g = 0; sample && g < sample->gpus->len; g++) {
            const struct vg_gpu_sample *gpu = &g_array_index(sample->gpus, struct vg_gpu_sample, g);
            const struct {
                const char *percentile;
                int64_t ns;
            } latencies[] = {{"50", gpu->latency_p50_ns},
                             {"95", gpu->latency_p95_ns},
                             {"99", gpu->latency_p99_ns}};
            g_autofree char *device = vg_metrics_label("device", gpu->device);
            g_autofree char *engine = vg_metrics_label("engine", gpu->engine);
            for (size_t k = 0; gpu->latency_max_ns > 0 && k < G_N_ELEMENTS(latencies); k++) {
                g_autofree char *percentile =
                    vg_metrics_label("percentile", latencies[k].percentile);
                g_autofree char *labels =
                    g_strconcat(row->labels, ",", device, ",", engine, ",", percentile, NULL);
                vg_metrics_value(out, name, labels, seconds(latencies[k].ns));
            }
        }
    }
}

/* Adds the total use of GPUs, if known. */
static void
add_host_gpus(GString *out, const vg_view *view)
{
    static const char name[] = "vgpud_gpu_busy_seconds_total";

    vg_metrics_family(out, name, "counter", "Time that a GPU's engine was busy.");
    for (guint i = 0; i < view->totals.gpus->len; i++) {
        const struct vg_gpu_sample *gpu =
            &g_array_index(view->totals.gpus, struct vg_gpu_sample, i);
        g_autofree char *device = vg_metrics_label("device", gpu->device);
        g_autofree char *engine = vg_metrics_label("engine", gpu->engine);
        g_autofree char *labels = g_strconcat(device, ",", engine, NULL);
        if (!(gpu->lacks & VG_GPU_NO_RUNS))
            vg_metrics_value(out, name, labels, seconds(gpu->busy_ns));
    }
}

static void
add_intensities(GString *out, const GArray *rows)
{
    vg_metrics_family(out, "vgpud_vm_info", "gauge", "Class of the VM, and its OpenStack name.");
    for (guint i = 0; i < rows->len; i++) {
        const struct row *row = &g_array_index(rows, struct row, i);
        g_autofree char *class = vg_metrics_label("class", vg_vm_class_names[row->vm->vm_class]);
        g_autofree char *called =
            row->vm->display_name ? vg_metrics_label("display_name", row->vm->display_name) : NULL;
        g_autofree char *labels =
            g_strconcat(row->labels, ",", class, called ? "," : NULL, called, NULL);
        vg_metrics_value(out, "vgpud_vm_info", labels, 1);
    }
    vg_metrics_family(out, "vgpud_vm_cpu_intensity_ratio", "gauge",
                      "CPU intensity of the VM, a moving mean; absent if unknown.");
    for (guint i = 0; i < rows->len; i++) {
        const struct row *row = &g_array_index(rows, struct row, i);
        if (row->sample)
            vg_metrics_value(out, "vgpud_vm_cpu_intensity_ratio", row->labels,
                             row->vm->cpu_intensity);
    }
    vg_metrics_family(out, "vgpud_vm_gpu_intensity_ratio", "gauge",
                      "GPU intensity of the VM, a moving mean; absent if unknown.");
    for (guint i = 0; i < rows->len; i++) {
        const struct row *row = &g_array_index(rows, struct row, i);
        if (row->vm->gpu_known)
            vg_metrics_value(out, "vgpud_vm_gpu_intensity_ratio", row->labels,
                             row->vm->gpu_intensity);
    }
}

/* Adds the newest window's figures, except unknown ones. */
static void
add_host(GString *out, const struct vg_window *newest)
{
    const struct vg_host_sample *host = &newest->host;
    const struct {
        const char *labels;
        int64_t ns;
    } uses[] = {{"use=\"vms\"", host->own_ns >= 0 ? vg_doc_vms_ns(newest) : -1},
                {"use=\"host\"", host->own_ns},
                {"use=\"idle\"", host->idle_ns},
                {"use=\"steal\"", host->steal_ns}};
    static const char *const loads[] = {"vgpud_host_load1", "vgpud_host_load5",
                                        "vgpud_host_load15"};

    vg_metrics_family(out, "vgpud_newest_window_host_cpu_seconds", "gauge",
                      "CPU time of all CPUs in the newest window, by use.");
    for (size_t i = 0; i < G_N_ELEMENTS(uses); i++) {
        if (uses[i].ns >= 0)
            vg_metrics_value(out, "vgpud_newest_window_host_cpu_seconds", uses[i].labels,
                             seconds(uses[i].ns));
    }
    vg_metrics_family(
        out, "vgpud_newest_window_host_pressure_seconds", "gauge",
        "Time of the newest window in which some or all tasks waited for a host resource.");
    for (unsigned i = 0; i < VG_RESOURCE_MAX; i++) {
        const struct vg_pressure *pressure = &host->pressure[i];
        for (int full = 0; full < 2; full++) {
            int64_t ns = full ? pressure->full_ns : pressure->some_ns;
            g_autofree char *labels = g_strdup_printf("resource=\"%s\",who=\"%s\"",
                                                      vg_resource_name(i), full ? "full" : "some");
            if (ns >= 0)
                vg_metrics_value(out, "vgpud_newest_window_host_pressure_seconds", labels,
                                 seconds(ns));
        }
    }
    for (size_t i = 0; i < G_N_ELEMENTS(loads); i++) {
        if (host->load[i] >= 0)
            vg_metrics_single(out, loads[i], "gauge", "Load average of the host, from its kernel.",
                              host->load[i]);
    }
}

static void
add_measurement(GString *out, const vg_view *view, const GPtrArray *parts)
{
    const struct vg_window *newest = &view->newest;

    vg_metrics_single(out, "vgpud_start_time_seconds", "gauge",
                      "Start of the daemon, since the epoch.", seconds(view->started_ns));
    vg_metrics_single(out, "vgpud_window_length_seconds", "gauge", "Configured length of a window.",
                      seconds(view->window_ns));
    vg_metrics_single(out, "vgpud_windows_total", "counter", "Windows that vgpud has closed.",
                      (double)view->windows);
    vg_metrics_single(out, "vgpud_window_parts_late_total", "counter",
                      "Window parts that arrived after their window was closed.",
                      (double)view->late);
    vg_metrics_single(out, "vgpud_window_parts_duplicate_total", "counter",
                      "Window parts that arrived twice.", (double)view->duplicates);
    if (newest->end_ns > newest->begin_ns)
        vg_metrics_single(out, "vgpud_newest_window_end_timestamp_seconds", "gauge",
                          "End of the newest window, since the epoch.",
                          seconds(newest->end_ns + view->clock_offset_ns));
    vg_metrics_single(out, "vgpud_newest_window_lost_events", "gauge",
                      "Events that the recorder dropped in the newest window.",
                      (double)newest->lost_events);
    if (newest->host.steal_ns >= 0)
        vg_metrics_single(out, "vgpud_newest_window_steal_seconds", "gauge",
                          "CPU time of the newest window that the hypervisor below this host gave "
                          "to other guests (steal).",
                          seconds(newest->host.steal_ns));
    if (newest->host.pressure_ns >= 0)
        vg_metrics_single(
            out, "vgpud_newest_window_pressure_seconds", "gauge",
            "Time of the newest window in which a thread of machine.slice waited for a CPU.",
            seconds(newest->host.pressure_ns));
    if (newest->host.runnable >= 0)
        vg_metrics_single(out, "vgpud_runnable_threads", "gauge",
                          "Threads that ran or waited for a CPU when the newest window ended.",
                          (double)newest->host.runnable);
    add_host(out, newest);
    vg_metrics_single(out, "vgpud_collector_cost_seconds", "gauge",
                      "CPU time spent measuring the newest window.",
                      seconds(view->provenance.cost_ns));
    vg_metrics_single(out, "vgpud_windows_missed_total", "counter",
                      "Windows that could not be measured, or whose GPU use was read too late.",
                      (double)view->missed);
    vg_metrics_single(out, "vgpud_effort_level", "gauge",
                      "Levels of detail omitted from the newest window to stay within the budget.",
                      view->provenance.level);
    vg_metrics_single(out, "vgpud_confidence_ratio", "gauge", "Confidence in the newest window.",
                      view->provenance.confidence);
    vg_metrics_family(out, "vgpud_measure_confidence_ratio", "gauge",
                      "Confidence in a measure of the newest window; 0 if not measured.");
    for (unsigned i = 0; i < VG_MEASURE_MAX; i++) {
        const struct vg_measured *measured = &view->provenance.measures[i];
        g_autofree char *measure = vg_metrics_label("measure", vg_measure_name(i));
        g_autofree char *source =
            vg_metrics_label("source", measured->source ? measured->source : "");
        g_autofree char *labels = g_strconcat(measure, ",", source, NULL);
        vg_metrics_value(out, "vgpud_measure_confidence_ratio", labels, measured->confidence);
    }
    vg_metrics_family(out, "vgpud_part_ready", "gauge", "Whether the part of the daemon works.");
    for (guint i = 0; i < parts->len; i++) {
        const struct vg_part_status *part = parts->pdata[i];
        g_autofree char *name = vg_metrics_label("part", part->name);
        g_autofree char *state = vg_metrics_label("state", part->state);
        g_autofree char *labels = g_strconcat(name, ",", state, NULL);
        vg_metrics_value(out, "vgpud_part_ready", labels, part->ready ? 1 : 0);
    }
}

static void
add_daemon(GString *out, const struct vg_daemon_stats *stats)
{
    const struct vg_store_health *store = &stats->store;

    vg_metrics_single(out, "vgpud_store_up", "gauge", "Whether the store can write.",
                      store->state == VG_STORE_OK);
    vg_metrics_single(out, "vgpud_store_windows_committed_total", "counter",
                      "Windows that were written to disk.", (double)store->committed);
    vg_metrics_single(out, "vgpud_store_windows_dropped_total", "counter",
                      "Windows lost because the store could not write.", (double)store->dropped);
    vg_metrics_single(out, "vgpud_store_failures_total", "counter",
                      "Transactions of the store that failed.", (double)store->failures);
    vg_metrics_single(out, "vgpud_store_windows_pending", "gauge",
                      "Windows in memory that have not been written to disk.",
                      (double)store->pending);
    vg_metrics_single(out, "vgpud_store_size_bytes", "gauge", "Size of all of the store's files.",
                      (double)store->bytes);
    if (store->free_bytes >= 0)
        vg_metrics_single(out, "vgpud_store_free_bytes", "gauge",
                          "Free space in the store's file system.", (double)store->free_bytes);
    vg_metrics_single(out, "vgpud_queue_reports_dropped_total", "counter",
                      "Collector reports that were dropped.", (double)stats->queue_dropped);
    vg_metrics_single(out, "vgpud_queue_high_water", "gauge",
                      "Highest number of reports that have waited in the queue.",
                      (double)stats->queue_high_water);
    vg_metrics_single(out, "vgpud_reloads_total", "counter", "Reloads of the configuration.",
                      (double)stats->reloads);
    vg_metrics_single(out, "vgpud_reload_failures_total", "counter", "Refused configurations.",
                      (double)stats->reload_failures);
    vg_metrics_single(out, "vgpud_reload_refused_timestamp_seconds", "gauge",
                      "When the last reload was refused; 0 if it was not.",
                      (double)(stats->reload_refused_ns / VG_NS_PER_S));
    vg_metrics_single(out, "vgpud_alert_commands_total", "counter", "Runs of the alert command.",
                      (double)stats->alert_commands);
    vg_metrics_single(out, "vgpud_alert_command_failures_total", "counter",
                      "Runs of the alert command that failed or took too long.",
                      (double)stats->alert_command_failures);
    vg_metrics_single(out, "vgpud_alert_commands_dropped_total", "counter",
                      "Alerts whose command was not run because too many were waiting.",
                      (double)stats->alert_commands_dropped);
    vg_metrics_single(out, "vgpud_libvirt_calls_given_up_total", "counter",
                      "Calls to libvirt that timed out.", (double)stats->calls_given_up);
    vg_metrics_single(out, "vgpud_libvirt_calls_hanging", "gauge",
                      "Calls to libvirt that timed out and have not returned.",
                      stats->calls_hanging);
    vg_metrics_family(out, "vgpud_move_verdicts_total", "counter",
                      "Moves that were judged, by verdict.");
    for (int i = VG_VERDICT_NONE + 1; i < VG_VERDICT_MAX; i++) {
        g_autofree char *labels = g_strdup_printf("verdict=\"%s\"", vg_verdict_names[i]);
        vg_metrics_value(out, "vgpud_move_verdicts_total", labels, (double)stats->verdicts[i]);
    }
    vg_metrics_single(out, "vgpud_policy_moves_started_total", "counter",
                      "Automatic moves that this host has started.", (double)stats->acts_started);
    vg_metrics_single(out, "vgpud_policy_moves_undone_total", "counter",
                      "Automatic moves that this host has reversed.", (double)stats->acts_undone);
    vg_metrics_single(out, "vgpud_policy_budget_spent", "gauge",
                      "1 if too many automatic moves failed or made things worse.",
                      stats->acts_spent);
    vg_metrics_family(out, "vgpud_peers", "gauge", "Peers of this vgpud.");
    for (int i = 0; i < VG_PEER_STATE_MAX; i++) {
        g_autofree char *labels = g_strdup_printf("state=\"%s\"", vg_peer_state_names[i]);
        vg_metrics_value(out, "vgpud_peers", labels, stats->peers[i]);
    }
    vg_metrics_single(out, "process_cpu_seconds_total", "counter", "CPU time of the process.",
                      stats->cpu_s);
    vg_metrics_single(out, "process_resident_memory_bytes", "gauge", "Memory of the process.",
                      (double)stats->rss_bytes);
}

static void
add_http(GString *out, const struct vg_http_stats *http)
{
    static const char name[] = "vgpud_http_requests_total";

    vg_metrics_family(out, name, "counter", "Responses, by route and status.");
    for (size_t i = 0; i <= VG_HTTP_ROUTES_MAX; i++) {
        const struct vg_route *route = i < http->n_routes ? &http->routes[i] : NULL;
        for (size_t k = 0; vg_http_codes[k]; k++) {
            uint64_t n = __atomic_load_n(&http->requests[i][k], __ATOMIC_RELAXED);
            if (n == 0)
                continue;
            g_autofree char *method =
                g_ascii_strup(route ? vg_method_member(route->method) : "none", -1);
            g_autofree char *labels = g_strdup_printf(
                "route=\"%s\",method=\"%s\",code=\"%u\"", route ? route->path : "none",
                route ? method : "none", (unsigned)vg_http_codes[k]);
            vg_metrics_value(out, name, labels, (double)n);
        }
    }
    vg_metrics_single(out, "vgpud_http_connections", "gauge", "Open connections.",
                      (double)__atomic_load_n(&http->connections, __ATOMIC_RELAXED));
    vg_metrics_single(out, "vgpud_http_streams", "gauge", "Open event streams and polls.",
                      (double)__atomic_load_n(&http->streams, __ATOMIC_RELAXED));
    vg_metrics_single(out, "vgpud_http_jobs_refused_total", "counter",
                      "Requests refused because too many were waiting.",
                      (double)__atomic_load_n(&http->jobs_refused, __ATOMIC_RELAXED));
    vg_metrics_family(out, "vgpud_http_refused_total", "counter",
                      "Connections and requests that were refused, by reason.");
    for (int i = 0; i < VG_REFUSED_MAX; i++) {
        g_autofree char *labels = g_strdup_printf("reason=\"%s\"", vg_refused_names[i]);
        vg_metrics_value(out, "vgpud_http_refused_total", labels,
                         (double)__atomic_load_n(&http->refused[i], __ATOMIC_RELAXED));
    }
}

static void
metrics_add_bare(GString *out, const GPtrArray *bare)
{
    vg_metrics_family(out, "vgpud_vm_without_gpu", "gauge",
                      "1 for each VM that lost its GPUs in a move and does not have them back.");
    for (guint i = 0; i < bare->len; i++) {
        const struct vg_bare_vm *vm = bare->pdata[i];
        g_autofree char *name = vg_metrics_label("vm", vm->vm);
        g_autofree char *uuid = vg_metrics_label("uuid", vm->uuid);
        g_autofree char *host = vg_metrics_label("host", vm->host);
        g_autofree char *move = vg_metrics_label("move", vm->move);
        g_autofree char *labels = g_strjoin(",", name, uuid, host, move, NULL);
        vg_metrics_value(out, "vgpud_vm_without_gpu", labels, 1);
    }
}

static void
metrics_add_alerts(GString *out, const vg_view *view)
{
    static const char name[] = "vgpud_alert_active";

    vg_metrics_single(out, "vgpud_alert_rules", "gauge", "Configured alerts.",
                      (double)view->alert_rules);
    vg_metrics_family(out, name, "gauge",
                      "1 for each active configured alert. An empty vm means the whole host.");
    for (guint i = 0; i < view->alerts->len; i++) {
        const struct vg_active_alert *alert = view->alerts->pdata[i];
        g_autofree char *rule = vg_metrics_label("rule", alert->alert);
        g_autofree char *vm = vg_metrics_label("vm", alert->vm ? alert->vm : "");
        g_autofree char *uuid = vg_metrics_label("uuid", alert->uuid ? alert->uuid : "");
        g_autofree char *called =
            vg_metrics_label("display_name", alert->display_name ? alert->display_name : "");
        g_autofree char *labels = g_strjoin(",", rule, vm, uuid, called, NULL);
        vg_metrics_value(out, name, labels, 1);
    }
}

char *
vg_doc_metrics(const vg_view *view, const GPtrArray *parts, const struct vg_daemon_stats *stats,
               const GPtrArray *bare, int64_t certificate_end_ns, const struct vg_http_stats *http)
{
    GString *out = g_string_new(NULL);
    int64_t begin = vg_clock_monotonic_ns();
    g_autoptr(GArray) rows = rows_of(view);

    vg_metrics_family(out, "vgpud_build_info", "gauge", "Version of the daemon.");
    vg_metrics_value(out, "vgpud_build_info", "version=\"" PACKAGE_VERSION "\"", 1);
    add_measurement(out, view, parts);
    add_figures(out, rows);
    add_exits(out, rows);
    metrics_add_lost(out, view, rows);
    add_gpus(out, rows);
    add_gpu_latencies(out, view, rows);
    add_gpu_open(out, view, rows);
    add_host_gpus(out, view);
    vg_metrics_add_places(out, view->snapshot);
    vg_metrics_add_proxies(out, view->newest.proxies);
    add_intensities(out, rows);
    add_daemon(out, stats);
    metrics_add_alerts(out, view);
    metrics_add_bare(out, bare);
    if (certificate_end_ns < INT64_MAX)
        vg_metrics_single(out, "vgpud_tls_certificate_expiry_timestamp_seconds", "gauge",
                          "Expiry of the API's certificate, since the epoch.",
                          seconds(certificate_end_ns));
    add_http(out, http);
    vg_metrics_single(out, "vgpud_scrape_duration_seconds", "gauge",
                      "Time taken to write these metrics.",
                      seconds(vg_clock_monotonic_ns() - begin));
    return g_string_free(out, FALSE);
}
