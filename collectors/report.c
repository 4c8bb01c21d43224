/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/report.h"

#include <stdarg.h>
#include <string.h>

#include "model/window-sum.h"

const char *const vg_collector_state_names[] = {
    [VG_COLLECTOR_STARTING] = "starting", [VG_COLLECTOR_OK] = "ok",
    [VG_COLLECTOR_DEGRADED] = "degraded", [VG_COLLECTOR_FAILED] = "failed",
    [VG_COLLECTOR_ENDED] = "ended",       [VG_COLLECTOR_STATE_MAX] = NULL,
};

struct vg_report *
vg_report_new(enum vg_report_kind kind, const char *collector)
{
    struct vg_report *report = g_new0(struct vg_report, 1);

    report->kind = kind;
    report->collector = collector;
    return report;
}

void
vg_report_free(struct vg_report *report)
{
    if (!report)
        return;
    vg_window_clear(&report->window);
    vg_inventory_free(report->inventory);
    g_free(report->text);
    if (report->sources)
        g_ptr_array_unref(report->sources);
    g_free(report->vm);
    g_free(report->uuid);
    g_free(report);
}

struct vg_report *
vg_report_status(const char *collector, enum vg_collector_state state, const char *fmt, ...)
{
    struct vg_report *report = vg_report_new(VG_REPORT_STATUS, collector);
    va_list args;

    va_start(args, fmt);
    report->text = g_strdup_vprintf(fmt, args);
    va_end(args);
    report->state = state;
    return report;
}

struct vg_report *
vg_report_copy(const struct vg_report *report)
{
    struct vg_report *copy = vg_report_new(report->kind, report->collector);

    if (report->window.vms)
        vg_window_copy(&copy->window, &report->window);
    copy->provenance = report->provenance;
    copy->clock_offset_ns = report->clock_offset_ns;
    copy->cpus = report->cpus;
    if (report->inventory)
        copy->inventory = vg_record_copy(&vg_inventory_record, report->inventory);
    copy->state = report->state;
    copy->trouble = report->trouble;
    copy->text = g_strdup(report->text);
    copy->sources = vg_source_states_copy(report->sources);
    copy->vm = g_strdup(report->vm);
    copy->uuid = g_strdup(report->uuid);
    return copy;
}

/* Puts the report unless it repeats the previous one. */
static void
report_put_if_new(struct vg_reported_state *told, const struct vg_report_sink *sink,
                  struct vg_report *take_report)
{
    g_autoptr(vg_report) report = take_report;

    if (told->text && told->state == report->state && strcmp(told->text, report->text) == 0)
        return;
    told->state = report->state;
    g_free(told->text);
    told->text = g_strdup(report->text);
    sink->put(sink->data, g_steal_pointer(&report));
}

void
vg_report_put_sources(struct vg_reported_state *told, const struct vg_report_sink *sink,
                      const char *collector, enum vg_collector_state state, const char *text,
                      GPtrArray *take_sources)
{
    struct vg_report *report = vg_report_status(collector, state, "%s", text);

    report->sources = take_sources;
    report_put_if_new(told, sink, report);
}

void
vg_report_put_state(struct vg_reported_state *told, const struct vg_report_sink *sink,
                    const char *collector, enum vg_collector_state state, enum vg_trouble trouble,
                    const char *text)
{
    struct vg_report *report = vg_report_status(collector, state, "%s", text);

    report->trouble = trouble;
    report_put_if_new(told, sink, report);
}
