/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/host-contention.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <glib.h>

#include "base/clock.h"
#include "host/proc-text.h"

/* /proc/stat has a line of hundreds of interrupt counts before the wanted lines. */
#define STAT_BYTES (256 * 1024)

int64_t
vg_host_parse_steal(const char *stat)
{
    int64_t steal;

    /* user nice system idle iowait irq softirq steal(proc(5)) */
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
vg_host_parse_idle(const char *stat)
{
    int64_t idle, iowait;

    return sscanf(stat, "cpu %*d %*d %*d %" SCNd64 " %" SCNd64, &idle, &iowait) == 2 && idle >= 0 &&
                   iowait >= 0
               ? vg_time_sum(idle, iowait)
               : -1;
}

bool
vg_host_parse_load(const char *loadavg, double ret[3])
{
    const char *at = loadavg;
    double load[3];

    for (unsigned i = 0; i < G_N_ELEMENTS(load); i++) {
        char *end;
        /* strtod() would depend on the locale. */
        load[i] = g_ascii_strtod(at, &end);
        if (end == at || !isfinite(load[i]) || load[i] < 0)
            return false;
        at = end;
    }
    memcpy(ret, load, sizeof(load));
    return true;
}

int64_t
vg_host_parse_runnable(const char *stat)
{
    const char *line = strstr(stat, "\nprocs_running ");
    int64_t running;

    return line && sscanf(line, "\nprocs_running %" SCNd64, &running) == 1 && running >= 0 ? running
                                                                                           : -1;
}

static int64_t
parse_total(const char *line)
{
    const char *total = strstr(line, "total=");
    int64_t us;

    return total && sscanf(total, "total=%" SCNd64, &us) == 1 && us >= 0 ? us : -1;
}

int64_t
vg_host_parse_pressure(const char *pressure)
{
    return g_str_has_prefix(pressure, "some ") ? parse_total(pressure) : -1;
}

int64_t
vg_host_parse_full_pressure(const char *pressure)
{
    const char *full = strstr(pressure, "\nfull ");

    return full ? parse_total(full) : -1;
}

/* Returns the growth of a counter, or -1. */
static int64_t
host_contention_moved(const struct vg_host_contention *state, int64_t last, int64_t now)
{
    return state->read && last >= 0 && now >= last ? now - last : -1;
}

static int64_t
scaled(int64_t count, int64_t unit_ns)
{
    return count < 0 || count > INT64_MAX / unit_ns ? -1 : count * unit_ns;
}

/* Explains why /proc/pressure cannot be read. */
static const char *
explain_no_pressure(int error)
{
    switch (error) {
    case ENOENT:
        return "the kernel has no /proc/pressure; it needs CONFIG_PSI, and psi=1 at boot if PSI is "
               "off by default";
    case EOPNOTSUPP:
        return "PSI is off in the kernel; boot it with psi=1";
    default:
        return "/proc/pressure cannot be read";
    }
}

static void
read_pressures(struct vg_host_contention *state, struct vg_host_sample *ret)
{
    for (unsigned i = 0; i < VG_RESOURCE_MAX; i++) {
        g_autofree char *path = g_strdup_printf("%s/pressure/%s", state->proc, vg_resource_name(i));
        struct vg_pressure now = {-1, -1}, *last = &state->pressure[i];
        char text[VG_PROC_TEXT_MAX];
        ssize_t n = vg_proc_read(path, text, sizeof(text));
        if (n > 0) {
            now.some_ns = scaled(vg_host_parse_pressure(text), VG_NS_PER_US);
            now.full_ns = scaled(vg_host_parse_full_pressure(text), VG_NS_PER_US);
        }
        if (now.some_ns < 0)
            ret->no_pressure = explain_no_pressure(n < 0 ? errno : 0);
        ret->pressure[i].some_ns = host_contention_moved(state, last->some_ns, now.some_ns);
        ret->pressure[i].full_ns = host_contention_moved(state, last->full_ns, now.full_ns);
        *last = now;
    }
}

void
vg_host_contention_init(struct vg_host_contention *state, const char *proc, const char *cgroup,
                        const char *sys)
{
    int64_t tick_ns = VG_NS_PER_S / MAX(sysconf(_SC_CLK_TCK), 1);

    *state = (struct vg_host_contention){.proc = proc, .cgroup = cgroup, .tick_ns = tick_ns};
    state->cpus = (struct vg_host_cpus){.sys = sys, .tick_ns = tick_ns, .only = vg_cpu_list_host()};
}

void
vg_host_contention_clear(struct vg_host_contention *state)
{
    vg_host_cpus_clear(&state->cpus);
}

/* Sums up the CPUs of this host if it does not have all of the machine's CPUs. */
static void
host_contention_sum(const GArray *cpus, struct vg_host_sample *ret)
{
    if (cpus->len == 0)
        return;
    ret->own_ns = ret->idle_ns = ret->steal_ns = 0;
    for (guint i = 0; i < cpus->len; i++) {
        const struct vg_host_cpu *cpu = &g_array_index(cpus, struct vg_host_cpu, i);
        ret->own_ns = vg_time_sum(ret->own_ns, cpu->busy_ns);
        ret->idle_ns = vg_time_sum(ret->idle_ns, cpu->idle_ns);
        ret->steal_ns = vg_time_sum(ret->steal_ns, cpu->steal_ns);
    }
}

void
vg_host_contention_read(struct vg_host_contention *state, struct vg_host_sample *ret, GArray *cpus)
{
    g_autofree char *text = g_malloc(STAT_BYTES);
    g_autofree char *stat = g_strdup_printf("%s/stat", state->proc);
    g_autofree char *schedstat = g_strdup_printf("%s/schedstat", state->proc);
    g_autofree char *loadavg = g_strdup_printf("%s/loadavg", state->proc);
    g_autofree char *waits = g_malloc(STAT_BYTES);
    g_autofree char *slice = g_strdup_printf("%s/machine.slice/cpu.pressure", state->cgroup);
    int64_t steal_ns = -1, busy_ns = -1, idle_ns = -1, pressure_ns = -1, runnable = -1;

    *ret = vg_host_sample_none();
    bool has_waits = vg_proc_read(schedstat, waits, STAT_BYTES) > 0;
    if (!has_waits)
        ret->no_cpu_waits = "the kernel has no /proc/schedstat (CONFIG_SCHEDSTATS)";
    g_array_set_size(cpus, 0);
    if (vg_proc_read(stat, text, STAT_BYTES) > 0) {
        steal_ns = scaled(vg_host_parse_steal(text), state->tick_ns);
        busy_ns = scaled(vg_host_parse_busy(text), state->tick_ns);
        idle_ns = scaled(vg_host_parse_idle(text), state->tick_ns);
        runnable = vg_host_parse_runnable(text);
        vg_host_cpus_read(&state->cpus, text, has_waits ? waits : NULL, cpus);
    }
    if (vg_proc_read(slice, text, STAT_BYTES) > 0)
        pressure_ns = scaled(vg_host_parse_pressure(text), VG_NS_PER_US);
    if (vg_proc_read(loadavg, text, STAT_BYTES) > 0)
        vg_host_parse_load(text, ret->load);
    ret->steal_ns = host_contention_moved(state, state->steal_ns, steal_ns);
    ret->pressure_ns = host_contention_moved(state, state->pressure_ns, pressure_ns);
    /* Do not count this thread, which runs only to read the file. */
    ret->runnable = runnable > 0 ? runnable - 1 : runnable;
    ret->own_ns = host_contention_moved(state, state->busy_ns, busy_ns);
    ret->idle_ns = host_contention_moved(state, state->idle_ns, idle_ns);
    if (state->cpus.only)
        host_contention_sum(cpus, ret);
    read_pressures(state, ret);
    state->steal_ns = steal_ns;
    state->busy_ns = busy_ns;
    state->idle_ns = idle_ns;
    state->pressure_ns = pressure_ns;
    state->read = true;
}

static void
cut(int64_t *ns, double part)
{
    if (*ns >= 0)
        *ns = (int64_t)((double)*ns * part);
}

void
vg_host_contention_cut(struct vg_window *window, double part)
{
    struct vg_host_sample *host = &window->host;

    cut(&host->own_ns, part);
    cut(&host->idle_ns, part);
    cut(&host->steal_ns, part);
    cut(&host->pressure_ns, part);
    for (unsigned i = 0; i < VG_RESOURCE_MAX; i++) {
        cut(&host->pressure[i].some_ns, part);
        cut(&host->pressure[i].full_ns, part);
    }
    for (guint i = 0; i < window->cpus->len; i++) {
        struct vg_host_cpu *cpu = &g_array_index(window->cpus, struct vg_host_cpu, i);
        cut(&cpu->busy_ns, part);
        cut(&cpu->idle_ns, part);
        cut(&cpu->steal_ns, part);
        cut(&cpu->wait_ns, part);
    }
}
