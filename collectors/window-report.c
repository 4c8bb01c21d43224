/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/window-report.h"

#include "base/clock.h"

void
vg_window_meter_start(struct vg_window_meter *meter)
{
    meter->cpu_ns = vg_clock_thread_cpu_ns();
    meter->events = 0;
}

static double
confidence(struct vg_window_meter *meter, const vg_window_reader *reader,
           const struct vg_window *window)
{
    uint64_t events = vg_window_reader_events(reader);
    double seen = (double)(events - meter->events);
    double lost = (double)window->lost_events;

    meter->events = events;
    return seen + lost > 0 ? seen / (seen + lost) : 1;
}

struct vg_report *
vg_window_report(struct vg_window_meter *meter, const vg_window_reader *reader,
                 int64_t clock_offset_ns, struct vg_window *take_window)
{
    struct vg_report *report = vg_report_new(VG_REPORT_WINDOW, meter->collector);
    struct vg_provenance *provenance = &report->provenance;
    int64_t cpu_ns = vg_clock_thread_cpu_ns();

    provenance->confidence = confidence(meter, reader, take_window);
    provenance->cost_ns = cpu_ns - meter->cpu_ns;
    vg_provenance_set_all(provenance, meter->collector, provenance->confidence);
    g_strlcpy(provenance->source, meter->source, sizeof(provenance->source));
    g_strlcpy(provenance->series, meter->series, sizeof(provenance->series));
    report->window = *take_window;
    report->clock_offset_ns = clock_offset_ns;
    report->cpus = vg_window_reader_host_cpus(reader);
    meter->cpu_ns = cpu_ns;
    return report;
}
