/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates documents about the host, and caches some of them with their view.
 */
#include "config.h"

#include <string.h>

#include "api/doc.h"
#include "api/request.h"
#include "base/clock.h"
#include "base/json.h"
#include "model/trouble.h"
#include "model/window-json.h"

static json_object *
make_body(const vg_view *view, enum vg_view_body body)
{
    switch (body) {
    case VG_BODY_VMS:
        return vg_doc_vms(view, VG_VM_SORT_NAME, &vg_vm_filter_none, VG_LIMIT_DEFAULT, NULL, NULL);
    case VG_BODY_GPUS:
        return vg_doc_gpus(view, VG_LIMIT_DEFAULT, NULL, NULL);
    case VG_BODY_PREEMPTIONS:
        return vg_doc_preemptions(view, NULL, VG_LIMIT_DEFAULT, NULL, NULL);
    case VG_BODY_SNAPSHOT:
        return vg_snapshot_to_json(view->snapshot);
    case VG_BODY_MAX:
    default:
        vg_bug("there is no document %d", (int)body);
    }
}

const char *
vg_view_text(vg_view *view, enum vg_view_body body, size_t *ret_size)
{
    VG_LOCK_SCOPE(&view->lock);
    if (!view->bodies[body]) {
        g_autoptr(json_object) object = make_body(view, body);
        view->bodies[body] = vg_json_to_text(object, false);
        view->sizes[body] = strlen(view->bodies[body]);
    }
    *ret_size = view->sizes[body];
    return view->bodies[body];
}

static void
add_code(json_object *object, enum vg_trouble trouble)
{
    if (vg_trouble_names[trouble])
        vg_json_add_string(object, "code", vg_trouble_names[trouble]);
}

static json_object *
sources_to_json(const GPtrArray *sources)
{
    json_object *array = json_object_new_array();

    for (guint i = 0; sources && i < sources->len; i++) {
        const struct vg_source_state *source = sources->pdata[i];
        json_object *object = json_object_new_object();
        vg_json_add_string(object, "name", source->name);
        vg_json_add_string(object, "state", vg_source_state_names[source->kind]);
        vg_json_add_string(object, "reason", source->reason);
        add_code(object, source->trouble);
        vg_json_append(array, object);
    }
    return array;
}

json_object *
vg_doc_parts(const GPtrArray *parts)
{
    json_object *array = json_object_new_array();

    for (guint i = 0; i < parts->len; i++) {
        const struct vg_part_status *part = parts->pdata[i];
        json_object *object = json_object_new_object();
        vg_json_add_string(object, "name", part->name);
        vg_json_add_string(object, "state", part->state);
        vg_json_add_bool(object, "ready", part->ready);
        vg_json_add_string(object, "reason", part->reason);
        add_code(object, part->trouble);
        if (part->since_ns > 0)
            vg_json_add_int64(object, "since_ns", part->since_ns);
        else
            vg_json_add(object, "since_ns", NULL);
        vg_json_add(object, "sources", sources_to_json(part->sources));
        vg_json_append(array, object);
    }
    return array;
}

json_object *
vg_doc_setup(const struct vg_daemon_stats *stats)
{
    json_object *object = json_object_new_object();
    json_object *store = json_object_new_object();

    vg_json_add_double(object, "budget", stats->budget);
    vg_json_add_bool(object, "libvirt", stats->libvirt);
    vg_json_add_bool(object, "gpu", stats->gpu);
    vg_json_add_bool(object, "acting", stats->acting);
    vg_json_add_string(object, "tls", vg_tls_mode_names[stats->tls]);
    vg_json_add_string(object, "migration_tls", vg_tls_certs_names[stats->migration_tls]);
    vg_json_add_string(store, "directory", stats->store_directory);
    vg_json_add_int64(store, "raw_days", stats->raw_days);
    vg_json_add_int64(store, "minute_days", stats->minute_days);
    vg_json_add_int64(store, "hour_days", stats->hour_days);
    vg_json_add(object, "store", store);
    return object;
}

static json_object *
daemon_to_json(const vg_view *view, const struct vg_daemon_stats *stats)
{
    json_object *object = json_object_new_object();

    vg_json_add_string(object, "version", PACKAGE_VERSION);
    vg_json_add_string(object, "boot_id", view->boot_id);
    vg_json_add_int64(object, "started_ns", view->started_ns);
    vg_json_add_bool(object, "replay", view->replay);
    vg_json_add_bool(object, "replay_ended", view->replay_ended);
    vg_json_add(object, "setup", vg_doc_setup(stats));
    return object;
}

/* Adds a time of the raw clock, or null before the first window. */
static void
add_time(json_object *object, const char *name, const vg_view *view, const struct vg_window *window,
         int64_t raw_ns)
{
    if (window->end_ns > window->begin_ns)
        vg_json_add_int64(object, name, raw_ns + view->clock_offset_ns);
    else
        vg_json_add(object, name, NULL);
}

void
vg_doc_add_known(json_object *object, const char *name, int64_t value)
{
    if (value >= 0)
        vg_json_add_int64(object, name, value);
    else
        vg_json_add(object, name, NULL);
}

static json_object *
load_to_json(const struct vg_host_sample *host)
{
    static const char *const members[] = {"1min", "5min", "15min"};

    if (host->load[0] < 0)
        return NULL;
    json_object *object = json_object_new_object();
    for (size_t i = 0; i < G_N_ELEMENTS(members); i++)
        vg_json_add_double(object, members[i], host->load[i]);
    return object;
}

static json_object *
pressure_to_json(const struct vg_host_sample *host)
{
    json_object *object = json_object_new_object();

    for (unsigned i = 0; i < VG_RESOURCE_MAX; i++) {
        json_object *one = json_object_new_object();
        vg_doc_add_known(one, "some_ns", host->pressure[i].some_ns);
        vg_doc_add_known(one, "full_ns", host->pressure[i].full_ns);
        vg_json_add(object, vg_resource_name(i), one);
    }
    vg_json_add_string(object, "reason", host->no_pressure);
    return object;
}

int64_t
vg_doc_vms_ns(const struct vg_window *window)
{
    int64_t ns = 0;

    for (guint i = 0; i < window->vms->len; i++)
        ns = vg_time_sum(ns, g_array_index(window->vms, struct vg_vm_sample, i).cpu.run_ns);
    return ns;
}

static json_object *
host_to_json(const struct vg_window *newest)
{
    const struct vg_host_sample *host = &newest->host;
    json_object *object = json_object_new_object();

    vg_doc_add_known(object, "vms_ns",
                     newest->end_ns > newest->begin_ns ? vg_doc_vms_ns(newest) : -1);
    vg_doc_add_known(object, "steal_ns", host->steal_ns);
    vg_doc_add_known(object, "pressure_ns", host->pressure_ns);
    vg_doc_add_known(object, "runnable", host->runnable);
    vg_doc_add_known(object, "own_ns", host->own_ns);
    vg_doc_add_known(object, "idle_ns", host->idle_ns);
    vg_json_add(object, "load", load_to_json(host));
    vg_json_add(object, "pressure", pressure_to_json(host));
    return object;
}

static json_object *
programs_to_json(const GArray *programs, bool with_pids)
{
    json_object *array = json_object_new_array();

    for (guint i = 0; i < MIN(programs->len, VG_SUM_LOST_PROCESSES_SHOWN); i++) {
        const struct vg_lost_process *program = &g_array_index(programs, struct vg_lost_process, i);
        json_object *item = json_object_new_object();
        vg_json_add_string(item, "comm", program->comm);
        vg_json_add_string(item, "cgroup", program->cgroup[0] ? program->cgroup : NULL);
        if (with_pids) {
            vg_json_add_int64(item, "pid", program->pid);
            vg_json_add_int64(item, "pids", program->pids);
        }
        vg_json_add_int64(item, "ns", program->ns);
        vg_json_add_int64(item, "error_ns", program->error_ns);
        vg_json_append(array, item);
    }
    return array;
}

/* Lists the host's programs by CPU time, since the start and in the last reading. Returns NULL if
 * they were never read. */
static json_object *
all_programs_to_json(const vg_view *view)
{
    const struct vg_window *totals = &view->totals, *newest = &view->newest;

    if (totals->programs_ns == 0 || newest->programs_ns == 0)
        return NULL;
    json_object *object = json_object_new_object();
    json_object *now = json_object_new_object();
    const int64_t end_ns = newest->programs_end_ns + view->clock_offset_ns;
    vg_json_add_int64(object, "length_ns", totals->programs_ns);
    vg_json_add(object, "items", programs_to_json(totals->programs, false));
    vg_json_add_int64(now, "begin_ns", end_ns - newest->programs_ns);
    vg_json_add_int64(now, "end_ns", end_ns);
    vg_json_add(now, "items", programs_to_json(newest->programs, true));
    vg_json_add(object, "newest", now);
    return object;
}

static json_object *
measures_to_json(const struct vg_provenance *provenance)
{
    json_object *object = json_object_new_object();

    for (unsigned i = 0; i < VG_MEASURE_MAX; i++) {
        const struct vg_measured *measured = &provenance->measures[i];
        json_object *one = json_object_new_object();
        vg_json_add_string(one, "source", measured->source);
        vg_json_add_double(one, "confidence", measured->confidence);
        vg_json_add_string(one, "reason", measured->reason);
        vg_json_add(object, vg_measure_name(i), one);
    }
    return object;
}

static json_object *
measurement_to_json(const vg_view *view)
{
    const struct vg_provenance *provenance = &view->provenance;
    json_object *object = json_object_new_object();

    vg_json_add_int64(object, "seq", (int64_t)view->seq);
    vg_json_add_int64(object, "made_ns", view->made_ns);
    vg_json_add_int64(object, "window_ns", view->window_ns);
    vg_json_add_int64(object, "windows", (int64_t)view->windows);
    vg_json_add_int64(object, "late", (int64_t)view->late);
    vg_json_add_int64(object, "duplicates", (int64_t)view->duplicates);
    vg_json_add_int64(object, "missed", (int64_t)view->missed);
    vg_json_add_string(object, "source", provenance->source[0] ? provenance->source : NULL);
    vg_json_add_string(object, "series", provenance->series[0] ? provenance->series : NULL);
    vg_json_add_double(object, "confidence", provenance->confidence);
    vg_json_add_bool(object, "waits_split", vg_provenance_knows(provenance, VG_MEASURE_WAIT_KINDS));
    vg_json_add_bool(object, "aggressors_known",
                     vg_provenance_knows(provenance, VG_MEASURE_LOST_TO));
    vg_json_add_int64(object, "level", provenance->level);
    vg_json_add_int64(object, "collector_cost_ns", provenance->cost_ns);
    vg_json_add(object, "measures", measures_to_json(provenance));
    vg_json_add(object, "host", host_to_json(&view->newest));
    vg_json_add(object, "programs", all_programs_to_json(view));
    vg_json_add_int64(object, "lost_events",
                      (int64_t)MIN(view->totals.lost_events, (uint64_t)VG_JSON_INT_MAX));
    vg_json_add_int64(object, "clock_offset_ns", view->clock_offset_ns);
    add_time(object, "begin_ns", view, &view->totals, view->totals.begin_ns);
    add_time(object, "end_ns", view, &view->totals, view->totals.end_ns);
    add_time(object, "newest_begin_ns", view, &view->newest, view->newest.begin_ns);
    return object;
}

static json_object *
gpus_to_json(const GPtrArray *gpus)
{
    json_object *array = json_object_new_array();

    for (guint i = 0; i < gpus->len; i++)
        vg_json_append(array, vg_record_write(&vg_inv_gpu_record, gpus->pdata[i]));
    return array;
}

/* Describes the largest profile of all GPUs. Returns NULL if no GPU offers any. */
static json_object *
host_largest_to_json(const vg_view *view)
{
    for (guint i = 0; i < view->snapshot->hosts->len; i++) {
        const struct vg_snap_host *host = view->snapshot->hosts->pdata[i];
        const struct vg_gpu_largest largest = vg_gpu_largest_of_host(host);
        bool offers = false;
        for (guint k = 0; k < host->gpus->len; k++)
            offers = offers || ((struct vg_snap_gpu *)host->gpus->pdata[k])->vgpu_types->len > 0;
        if (offers)
            return vg_doc_gpu_largest(view, &largest);
    }
    return NULL;
}

json_object *
vg_doc_host(const vg_view *view, const GPtrArray *parts, const struct vg_daemon_stats *stats,
            json_object *take_alerts)
{
    const vg_inventory *inventory = view->inventory;
    json_object *object = json_object_new_object();
    int64_t vms = 0;

    for (guint i = 0; i < view->snapshot->hosts->len; i++)
        vms += ((const struct vg_snap_host *)view->snapshot->hosts->pdata[i])->vms->len;
    vg_json_add_string(object, "name", inventory->host);
    vg_json_add_string(object, "uuid", inventory->uuid);
    vg_json_add_int64(object, "cpus", inventory->cpus);
    vg_json_add_string(object, "cpu_model", inventory->cpu_model);
    vg_json_add_int64(object, "memory_bytes", inventory->memory_bytes);
    vg_json_add_int64(object, "memory_free_bytes", inventory->memory_free_bytes);
    vg_json_add_string(object, "hypervisor", inventory->hypervisor);
    vg_json_add_string(object, "libvirt_uri", inventory->libvirt_uri);
    vg_json_add(object, "gpus", gpus_to_json(inventory->gpus));
    vg_json_add(object, "largest_free", host_largest_to_json(view));
    vg_json_add_int64(object, "vms", vms);
    vg_json_add(object, "daemon", daemon_to_json(view, stats));
    vg_json_add(object, "measurement", measurement_to_json(view));
    vg_json_add(object, "parts", vg_doc_parts(parts));
    vg_json_add(object, "alerts", take_alerts);
    return object;
}

json_object *
vg_doc_history_losses(const GArray *losses)
{
    json_object *array = json_object_new_array();

    for (guint i = 0; i < losses->len; i++) {
        const struct vg_history_loss *loss = &g_array_index(losses, struct vg_history_loss, i);
        json_object *item = json_object_new_object();
        vg_json_add_string(item, "aggressor", loss->aggressor);
        vg_json_add_int64(item, "ns", loss->ns);
        vg_json_add_int64(item, "count", (int64_t)loss->count);
        vg_json_append(array, item);
    }
    return array;
}

static json_object *
row_to_json(const struct vg_history_row *row)
{
    json_object *object = json_object_new_object();

    vg_json_add_int64(object, "begin_ns", row->begin_ns);
    vg_json_add_int64(object, "end_ns", row->end_ns);
    vg_json_add_int64(object, "windows", row->windows);
    vg_json_add_figures(object, &row->cpu, 0);
    vg_json_add_double(object, "cpu_intensity", vg_cpu_figures_intensity(&row->cpu));
    vg_json_add_bool(object, "guest_known", row->guest_known);
    vg_json_add_bool(object, "gpu_known", row->gpu_known);
    vg_json_add_lacks(object, row->lacks, NULL);
    vg_json_add_int64(object, "gpu_active_ns", row->gpu_active_ns);
    vg_json_add_int64(object, "lost_events", (int64_t)row->lost_events);
    vg_json_add(object, "lost_to", vg_doc_history_losses(row->lost_to));
    return object;
}

json_object *
vg_doc_samples(const char *id, const char *name, const struct vg_history_query *query,
               const GArray *rows)
{
    json_object *object = json_object_new_object();
    json_object *items = json_object_new_array();
    json_object *left_out = json_object_new_array();

    for (guint i = 0; query->left_out && i < query->left_out->len; i++)
        vg_json_append(left_out, json_object_new_string(query->left_out->pdata[i]));
    vg_json_add(object, "vm", vg_doc_vm_name(NULL, id, name));
    vg_json_add_int64(object, "since_ns", query->since_ns);
    vg_json_add_int64(object, "until_ns", query->until_ns);
    vg_json_add_int64(object, "step_ns", query->step_ns);
    for (guint i = 0; i < rows->len; i++)
        vg_json_append(items, row_to_json(&g_array_index(rows, struct vg_history_row, i)));
    vg_json_add(object, "items", items);
    vg_json_add(object, "left_out", left_out);
    return object;
}

void
vg_doc_add_made(json_object *object, int64_t made_ns)
{
    char text[VG_UTC_LEN];

    vg_json_add_int64(object, "made_ns", made_ns);
    vg_json_add_string(object, "made", vg_utc_format(made_ns, text));
}
