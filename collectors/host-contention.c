/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/host-contention.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <glib.h>

#include "base/clock.h"
#include "host/proc-text.h"

/* /proc/stat has a line of some hundred numbers of interrupts before the ones that are wanted. */
#define STAT_BYTES (64 * 1024)

int64_t
vg_host_parse_steal(const char *stat)
{
    int64_t steal;

    /* user nice system idle iowait irq softirq steal; proc(5). */
    return sscanf(stat, "cpu %*d %*d %*d %*d %*d %*d %*d %" SCNd64, &steal) == 1 && steal >= 0
               ? steal
               : -1;
}

int64_t
vg_host_parse_busy(const char *stat)
{
    int64_t ticks[5], busy = 0;

    /* user nice system (idle iowait) irq softirq; guests are part of user and nice. */
    if (sscanf(stat, "cpu %" SCNd64 " %" SCNd64 " %" SCNd64 " %*d %*d %" SCNd64 " %" SCNd64,
               &ticks[0], &ticks[1], &ticks[2], &ticks[3], &ticks[4]) != 5)
        return -1;
    for (size_t i = 0; i < G_N_ELEMENTS(ticks); i++) {
        if (ticks[i] < 0)
            return -1;
        busy = vg_time_sum(busy, ticks[i]);
    }
    return busy;
}

int64_t
vg_host_parse_runnable(const char *stat)
{
    const char *line = strstr(stat, "\nprocs_running ");
    int64_t running;

    return line && sscanf(line, "\nprocs_running %" SCNd64, &running) == 1 && running >= 0 ? running
                                                                                           : -1;
}

int64_t
vg_host_parse_pressure(const char *pressure)
{
    const char *total = g_str_has_prefix(pressure, "some ") ? strstr(pressure, "total=") : NULL;
    int64_t us;

    return total && sscanf(total, "total=%" SCNd64, &us) == 1 && us >= 0 ? us : -1;
}

/* What a counter moved, or -1. */
static int64_t
moved(const struct vg_host_contention *state, int64_t last, int64_t now)
{
    return state->read && last >= 0 && now >= last ? now - last : -1;
}

static int64_t
scaled(int64_t count, int64_t unit_ns)
{
    return count < 0 || count > INT64_MAX / unit_ns ? -1 : count * unit_ns;
}

void
vg_host_contention_read(struct vg_host_contention *state, struct vg_host_sample *ret)
{
    g_autofree char *text = g_malloc(STAT_BYTES);
    g_autofree char *stat = g_strdup_printf("%s/stat", state->proc);
    g_autofree char *slice = g_strdup_printf("%s/machine.slice/cpu.pressure", state->cgroup);
    int64_t steal_ns = -1, busy_ns = -1, pressure_ns = -1, runnable = -1;

    if (vg_proc_read(stat, text, STAT_BYTES) > 0) {
        steal_ns = scaled(vg_host_parse_steal(text), state->tick_ns);
        busy_ns = scaled(vg_host_parse_busy(text), state->tick_ns);
        runnable = vg_host_parse_runnable(text);
    }
    if (vg_proc_read(slice, text, STAT_BYTES) > 0)
        pressure_ns = scaled(vg_host_parse_pressure(text), VG_NS_PER_US);
    *ret = (struct vg_host_sample){
        .steal_ns = moved(state, state->steal_ns, steal_ns),
        .pressure_ns = moved(state, state->pressure_ns, pressure_ns),
        /* Not this thread, which runs to read it. */
        .runnable = runnable > 0 ? runnable - 1 : runnable,
        .own_ns = moved(state, state->busy_ns, busy_ns),
    };
    state->steal_ns = steal_ns;
    state->busy_ns = busy_ns;
    state->pressure_ns = pressure_ns;
    state->read = true;
}
