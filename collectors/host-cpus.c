/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/host-cpus.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "host/proc-text.h"
#include "model/event.h"

/* The maximum length of a node's CPU list, in bytes. */
#define LIST_BYTES 4096

void
vg_host_cpus_clear(struct vg_host_cpus *state)
{
    g_clear_pointer(&state->last, g_array_unref);
    g_clear_pointer(&state->nodes, g_hash_table_unref);
}

/* ---- texts ---- */

static const char *
next_line(const char *line)
{
    const char *end = strchr(line, '\n');

    return end ? end + 1 : line + strlen(line);
}

static struct vg_host_cpu *
find_cpu(const GArray *cpus, int32_t cpu)
{
    for (guint i = 0; i < cpus->len; i++) {
        struct vg_host_cpu *known = &g_array_index(cpus, struct vg_host_cpu, i);
        if (known->cpu == cpu)
            return known;
    }
    return NULL;
}

/* Parses a line "cpu3 user nice system idle iowait irq softirq steal" (proc(5)). */
static bool
parse_stat_line(const char *line, int64_t tick_ns, struct vg_host_cpu *ret)
{
    int64_t ticks[8];
    int32_t cpu;

    /* Skip the line for all CPUs, "cpu user nice ...". */
    if (!g_str_has_prefix(line, "cpu") || !g_ascii_isdigit(line[3]) ||
        sscanf(line,
               "cpu%" SCNd32 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64
               " %" SCNd64 " %" SCNd64,
               &cpu, &ticks[0], &ticks[1], &ticks[2], &ticks[3], &ticks[4], &ticks[5], &ticks[6],
               &ticks[7]) != 9 ||
        cpu < 0 || cpu >= VG_CPU_LIMIT)
        return false;
    for (size_t i = 0; i < G_N_ELEMENTS(ticks); i++) {
        if (ticks[i] < 0 || ticks[i] > INT64_MAX / 8 / tick_ns)
            return false;
    }
    *ret = (struct vg_host_cpu){
        .cpu = cpu,
        .node = -1,
        .busy_ns = (ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]) * tick_ns,
        .idle_ns = (ticks[3] + ticks[4]) * tick_ns,
        .steal_ns = ticks[7] * tick_ns,
        .wait_ns = -1,
    };
    return true;
}

/* Parses lines "cpu3 ..." with nine figures. The eighth figure is how long threads waited, in
 * nanoseconds (the kernel's sched-stats.rst). */
static void
parse_schedstat(const char *schedstat, const GArray *cpus)
{
    for (const char *line = schedstat; *line; line = next_line(line)) {
        int64_t wait_ns;
        int32_t cpu;
        if (!g_str_has_prefix(line, "cpu") || !g_ascii_isdigit(line[3]) ||
            sscanf(line, "cpu%" SCNd32 " %*u %*u %*u %*u %*u %*u %*u %" SCNd64, &cpu, &wait_ns) !=
                2 ||
            wait_ns < 0)
            continue;
        struct vg_host_cpu *known = find_cpu(cpus, cpu);
        if (known)
            known->wait_ns = wait_ns;
    }
}

void
vg_host_cpus_parse(const char *stat, const char *schedstat, int64_t tick_ns, GArray *ret)
{
    struct vg_host_cpu cpu;

    g_array_set_size(ret, 0);
    for (const char *line = stat; *line; line = next_line(line)) {
        if (parse_stat_line(line, tick_ns, &cpu) && !find_cpu(ret, cpu.cpu))
            g_array_append_val(ret, cpu);
    }
    if (schedstat)
        parse_schedstat(schedstat, ret);
}

void
vg_host_cpus_parse_node(const char *list, int32_t node, GHashTable *nodes)
{
    while (*list) {
        int32_t first, last;
        int n = sscanf(list, "%" SCNd32 "-%" SCNd32, &first, &last);
        if (n < 1 || first < 0)
            return;
        last = n == 2 ? MIN(last, VG_CPU_LIMIT - 1) : first;
        for (int32_t cpu = first; cpu <= last; cpu++)
            g_hash_table_insert(nodes, GINT_TO_POINTER(cpu), GINT_TO_POINTER(node));
        list = strchr(list, ',');
        if (!list)
            return;
        list++;
    }
}

/* ---- reading ---- */

static GHashTable *
read_nodes(const char *sys)
{
    g_autofree char *path = g_build_filename(sys, "devices/system/node", NULL);
    GHashTable *nodes = g_hash_table_new(NULL, NULL);
    g_autoptr(GDir) dir = g_dir_open(path, 0, NULL);
    const char *name;

    while (dir && (name = g_dir_read_name(dir))) {
        char list[LIST_BYTES];
        int32_t node;
        if (sscanf(name, "node%" SCNd32, &node) != 1 || node < 0)
            continue;
        g_autofree char *file = g_build_filename(path, name, "cpulist", NULL);
        if (vg_proc_read(file, list, sizeof(list)) > 0)
            vg_host_cpus_parse_node(list, node, nodes);
    }
    return nodes;
}

static int32_t
node_of(const struct vg_host_cpus *state, int32_t cpu)
{
    void *node;

    return g_hash_table_lookup_extended(state->nodes, GINT_TO_POINTER(cpu), NULL, &node)
               ? GPOINTER_TO_INT(node)
               : -1;
}

/* Returns the growth of a counter, at least 0. The kernel's idle time of a CPU may decrease
 * slightly. */
static int64_t
host_cpus_moved(int64_t last, int64_t now)
{
    return last < 0 || now < 0 ? -1 : MAX(now - last, 0);
}

void
vg_host_cpus_read(struct vg_host_cpus *state, const char *stat, const char *schedstat, GArray *ret)
{
    GArray *now = g_array_new(FALSE, FALSE, sizeof(struct vg_host_cpu));

    g_array_set_size(ret, 0);
    vg_host_cpus_parse(stat, schedstat, state->tick_ns, now);
    /* The table contains hot-plugged CPUs from the start, or is read again. */
    if (state->last && state->last->len != now->len)
        g_clear_pointer(&state->nodes, g_hash_table_unref);
    if (!state->nodes)
        state->nodes = read_nodes(state->sys);
    for (guint i = 0; state->last && i < now->len; i++) {
        struct vg_host_cpu cpu = g_array_index(now, struct vg_host_cpu, i);
        const struct vg_host_cpu *last = find_cpu(state->last, cpu.cpu);
        if (!last || (state->only && !vg_cpu_list_has(state->only, cpu.cpu)))
            continue;
        cpu.node = node_of(state, cpu.cpu);
        cpu.busy_ns = host_cpus_moved(last->busy_ns, cpu.busy_ns);
        cpu.idle_ns = host_cpus_moved(last->idle_ns, cpu.idle_ns);
        cpu.steal_ns = host_cpus_moved(last->steal_ns, cpu.steal_ns);
        cpu.wait_ns = host_cpus_moved(last->wait_ns, cpu.wait_ns);
        g_array_append_val(ret, cpu);
    }
    g_clear_pointer(&state->last, g_array_unref);
    state->last = now;
}
