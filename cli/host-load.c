/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/host-load.h"

#include <string.h>

#include <glib.h>

#include "base/json.h"
#include "cli/grid.h"
#include "cli/output.h"

/* The width of the columns with figures, including the blanks between all columns. */
#define FIGURE_COLUMNS 48
/* The minimum width of each column with VM names, and the width if the output is unlimited. */
#define NAMES_MIN 12
#define NAMES_MAX 200

static int64_t
read_ns(json_object *object, const char *path)
{
    return json_object_get_int64(vg_output_member(object, path));
}

/* Adds a fraction of the length, or null if unknown. */
static void
add_share(json_object *row, const char *name, json_object *ns, int64_t length_ns)
{
    if (ns && length_ns > 0)
        vg_json_add_double(row, name, (double)json_object_get_int64(ns) / (double)length_ns);
    else
        vg_json_add(row, name, NULL);
}

static int64_t
window_length(json_object *host)
{
    return read_ns(host, "measurement.end_ns") - read_ns(host, "measurement.newest_begin_ns");
}

json_object *
vg_host_use_rows(json_object *host)
{
    static const char *const members[][2] = {
        {"vms", "vms_ns"}, {"own", "own_ns"}, {"idle", "idle_ns"}, {"steal", "steal_ns"}};
    static const char *const kept[] = {"runnable", "load"};
    json_object *told = vg_output_member(host, "measurement.host");
    json_object *rows = json_object_new_array();

    if (!vg_output_member(told, "vms_ns"))
        return rows;
    json_object *row = json_object_new_object();
    for (size_t i = 0; i < G_N_ELEMENTS(members); i++)
        add_share(row, members[i][0], vg_output_member(told, members[i][1]), window_length(host));
    for (size_t i = 0; i < G_N_ELEMENTS(kept); i++)
        vg_json_add(row, kept[i], json_object_get(vg_output_member(told, kept[i])));
    vg_json_append(rows, row);
    return rows;
}

static void
add_pressure(json_object *rows, const char *resource, json_object *some, json_object *full,
             int64_t length_ns)
{
    json_object *row = json_object_new_object();

    vg_json_add_string(row, "resource", resource);
    add_share(row, "some", some, length_ns);
    add_share(row, "full", full, length_ns);
    vg_json_append(rows, row);
}

json_object *
vg_host_pressure_rows(json_object *host)
{
    static const char *const resources[] = {"cpu", "memory", "io"};
    json_object *told = vg_output_member(host, "measurement.host");
    json_object *pressure = vg_output_member(told, "pressure");
    json_object *slice = vg_output_member(told, "pressure_ns");
    json_object *rows = json_object_new_array();

    for (size_t i = 0; i < G_N_ELEMENTS(resources); i++) {
        json_object *one = vg_output_member(pressure, resources[i]);
        json_object *some = vg_output_member(one, "some_ns");
        if (some)
            add_pressure(rows, resources[i], some, vg_output_member(one, "full_ns"),
                         window_length(host));
    }
    if (slice)
        add_pressure(rows, "cpu, of machine.slice", slice, NULL, window_length(host));
    return rows;
}

/* ---- CPUs ---- */

struct ran {
    const char *name;
    int64_t ns;
};

static int
compare_ran(const void *a, const void *b)
{
    const struct ran *x = a, *y = b;

    return x->ns != y->ns ? (y->ns > x->ns) - (y->ns < x->ns) : g_strcmp0(x->name, y->name);
}

/* Joins as many texts as fit, followed by the number of the remaining ones. The first one is cut if
 * necessary. The caller frees the result. */
static char *
join_names(const GPtrArray *texts, int room, bool utf8)
{
    g_autoptr(GString) joined = g_string_new(NULL);

    for (guint i = 0; i < texts->len; i++) {
        g_autofree char *rest =
            i + 1 < texts->len ? g_strdup_printf(", +%u", texts->len - i - 1) : g_strdup("");
        g_autofree char *next = g_strconcat(joined->str, i > 0 ? ", " : "", texts->pdata[i], NULL);
        g_autofree char *whole = g_strconcat(next, rest, NULL);
        if (vg_grid_text_columns(whole, utf8) > room && i > 0) {
            g_string_append_printf(joined, ", +%u", texts->len - i);
            break;
        }
        g_string_assign(joined, next);
    }
    if (vg_grid_text_columns(joined->str, utf8) <= room)
        return g_strdup(joined->str);
    g_autoptr(vg_grid) grid = vg_grid_new(1, room, utf8);
    vg_grid_put(grid, 0, 0, room, false, VG_ATTR_PLAIN, joined->str);
    return vg_grid_text(grid, 0);
}

/* Returns the display name of a VM, or NULL. The name is borrowed. */
static const char *
called(json_object *vm)
{
    json_object *label = vg_output_member(vm, "label");

    return json_object_get_string(label ? label : vg_output_member(vm, "name"));
}

/* Returns "alpha 45, beta 3": the VMs whose vCPUs ran there, in percent of the window. */
static char *
name_ran(json_object *vms, int64_t length_ns, int room, bool utf8)
{
    g_autoptr(GArray) order = g_array_new(FALSE, FALSE, sizeof(struct ran));
    g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func(g_free);

    for (size_t i = 0; i < vg_output_length(vms); i++) {
        json_object *vm = json_object_array_get_idx(vms, i);
        struct ran ran = {called(vm), read_ns(vm, "run_ns")};
        g_array_append_val(order, ran);
    }
    g_array_sort(order, compare_ran);
    for (guint i = 0; i < order->len; i++) {
        const struct ran *ran = &g_array_index(order, struct ran, i);
        g_ptr_array_add(texts, g_strdup_printf("%s %.0f", ran->name ? ran->name : "?",
                                               (double)ran->ns * 100 / (double)length_ns));
    }
    return join_names(texts, room, utf8);
}

static char *
name_pinned(json_object *vms, int room, bool utf8)
{
    g_autoptr(GPtrArray) texts = g_ptr_array_new_with_free_func(g_free);

    for (size_t i = 0; i < vg_output_length(vms); i++) {
        const char *name = called(json_object_array_get_idx(vms, i));
        g_ptr_array_add(texts, g_strdup(name ? name : "?"));
    }
    return join_names(texts, room, utf8);
}

/* Adds the busy time that does not belong to VMs. */
static void
add_host_share(json_object *row, json_object *cpu, int64_t length_ns)
{
    json_object *busy = vg_output_member(cpu, "busy_ns");
    int64_t ns = MAX(json_object_get_int64(busy) - read_ns(cpu, "vms_ns"), 0);

    if (busy && length_ns > 0)
        vg_json_add_double(row, "host", (double)ns / (double)length_ns);
}

static json_object *
cpu_row(json_object *cpu, int64_t length_ns, bool placed, int room, bool utf8)
{
    static const char *const kept[] = {"cpu", "node"};
    static const char *const shares[][2] = {{"idle", "idle_ns"},
                                            {"steal", "steal_ns"},
                                            {"vm_waits", "vms_wait_ns"},
                                            {"waits", "wait_ns"}};
    json_object *row = json_object_new_object();

    for (size_t i = 0; i < G_N_ELEMENTS(kept); i++)
        vg_json_add(row, kept[i], json_object_get(vg_output_member(cpu, kept[i])));
    for (size_t i = 0; i < G_N_ELEMENTS(shares); i++)
        add_share(row, shares[i][0], vg_output_member(cpu, shares[i][1]), length_ns);
    if (placed) {
        add_share(row, "vms", vg_output_member(cpu, "vms_ns"), length_ns);
        add_host_share(row, cpu, length_ns);
    }
    g_autofree char *pins =
        name_pinned(vg_output_member(cpu, "pinned"), MAX(room / 2, NAMES_MIN), utf8);
    g_autofree char *ran = length_ns > 0 ? name_ran(vg_output_member(cpu, "vms"), length_ns,
                                                    MAX(room / 2, NAMES_MIN), utf8)
                                         : g_strdup("");
    vg_json_add_string(row, "ran", ran[0] ? ran : NULL);
    vg_json_add_string(row, "pinned", pins[0] ? pins : NULL);
    return row;
}

json_object *
vg_host_cpu_rows(json_object *cpus, int columns, bool utf8)
{
    json_object *items = vg_output_member(cpus, "items");
    int64_t length_ns = read_ns(cpus, "end_ns") - read_ns(cpus, "begin_ns");
    bool placed = vg_output_member(cpus, "places") != NULL;
    int room = columns > 0 ? columns - FIGURE_COLUMNS : 2 * NAMES_MAX;
    json_object *rows = json_object_new_array();

    for (size_t i = 0; i < vg_output_length(items); i++)
        vg_json_append(rows,
                       cpu_row(json_object_array_get_idx(items, i), length_ns, placed, room, utf8));
    return rows;
}

/* ---- NUMA nodes ---- */

static json_object *
host_load_node(json_object *rows, json_object *node)
{
    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        json_object *row = json_object_array_get_idx(rows, i);
        if (json_object_get_int64(vg_output_member(row, "node")) == json_object_get_int64(node))
            return row;
    }
    json_object *row = json_object_new_object();
    vg_json_add(row, "node", json_object_get(node));
    vg_json_append(rows, row);
    return row;
}

/* Adds a CPU's figure to a sum. The sum is unknown if one figure is unknown. */
static void
host_load_add_cpu(json_object *row, json_object *cpu, const char *name, const char *member,
                  int64_t length_ns)
{
    json_object *ns = vg_output_member(cpu, member), *sum = NULL;
    const bool is_first = !json_object_object_get_ex(row, name, &sum);

    if (!ns || length_ns <= 0 || (!is_first && !sum))
        vg_json_add(row, name, NULL);
    else
        vg_json_add_double(row, name,
                           json_object_get_double(sum) +
                               (double)json_object_get_int64(ns) / (double)length_ns);
}

static int
host_load_compare_nodes(const void *a, const void *b)
{
    int64_t x = read_ns(*(json_object *const *)a, "node"),
            y = read_ns(*(json_object *const *)b, "node");

    return (x > y) - (x < y);
}

json_object *
vg_host_node_rows(json_object *cpus)
{
    static const char *const sums[][2] = {{"busy", "busy_ns"},
                                          {"idle", "idle_ns"},
                                          {"steal", "steal_ns"},
                                          {"vm_waits", "vms_wait_ns"},
                                          {"waits", "wait_ns"}};
    const int64_t length_ns = read_ns(cpus, "end_ns") - read_ns(cpus, "begin_ns");
    const bool placed = vg_output_member(cpus, "places") != NULL;
    json_object *items = vg_output_member(cpus, "items");
    json_object *rows = json_object_new_array();

    for (size_t i = 0; i < vg_output_length(items); i++) {
        json_object *cpu = json_object_array_get_idx(items, i);
        json_object *node = vg_output_member(cpu, "node");
        if (!node)
            continue;
        json_object *row = host_load_node(rows, node);
        for (size_t k = 0; k < G_N_ELEMENTS(sums); k++)
            host_load_add_cpu(row, cpu, sums[k][0], sums[k][1], length_ns);
        host_load_add_cpu(row, cpu, "vms", placed ? "vms_ns" : "", length_ns);
        vg_json_add_int64(row, "cpus", read_ns(row, "cpus") + 1);
    }
    if (json_object_array_length(rows) < 2) {
        json_object_put(rows);
        return json_object_new_array();
    }
    json_object_array_sort(rows, host_load_compare_nodes);
    return rows;
}

/* ---- processes behind host:user ---- */

/* The width of the columns before the control group. */
#define PROCESS_COLUMNS 60
#define CGROUP_MIN      16

/* Returns the end of a text, cut to `room` columns. The caller frees it. */
static char *
cut_front(const char *text, int room, bool utf8)
{
    const char *at = text;

    if (vg_grid_text_columns(text, utf8) <= room)
        return g_strdup(text);
    while (*at && vg_grid_text_columns(at, utf8) > room - 3)
        at = g_utf8_next_char(at);
    return g_strconcat("...", at, NULL);
}

static void
add_process(json_object *rows, json_object *process, int columns, bool utf8)
{
    int64_t pid = read_ns(process, "pid"), pids = read_ns(process, "pids");
    const char *cgroup = json_object_get_string(vg_output_member(process, "cgroup"));
    json_object *row = json_object_new_object();
    g_autofree char *who =
        pids > 1 ? g_strdup_printf("%" G_GINT64_FORMAT " +%" G_GINT64_FORMAT, pid, pids - 1)
                 : g_strdup_printf("%" G_GINT64_FORMAT, pid);
    g_autofree char *end =
        cgroup ? cut_front(cgroup, columns > 0 ? MAX(columns - PROCESS_COLUMNS, CGROUP_MIN) : 4096,
                           utf8)
               : NULL;

    vg_json_add(row, "comm", json_object_get(vg_output_member(process, "comm")));
    vg_json_add_string(row, "pid", who);
    vg_json_add(row, "ns", json_object_get(vg_output_member(process, "ns")));
    if (read_ns(process, "error_ns") > 0)
        vg_json_add_int64(row, "at_most", read_ns(process, "ns") + read_ns(process, "error_ns"));
    vg_json_add(row, "count", json_object_get(vg_output_member(process, "count")));
    vg_json_add_string(row, "cgroup", end);
    vg_json_append(rows, row);
}

static void
host_load_add_to(json_object *process, json_object *more, const char *member)
{
    vg_json_add_int64(process, member, read_ns(process, member) + read_ns(more, member));
}

static bool
host_load_is_called(json_object *process, json_object *other)
{
    return g_strcmp0(json_object_get_string(vg_output_member(process, "comm")),
                     json_object_get_string(vg_output_member(other, "comm"))) == 0;
}

/* Returns the only process with the same name and a known control group, or NULL. */
static json_object *
host_load_same(json_object *processes, json_object *process)
{
    json_object *same = NULL;

    for (size_t i = 0; i < vg_output_length(processes); i++) {
        json_object *other = json_object_array_get_idx(processes, i);
        if (!vg_output_member(other, "cgroup") || !host_load_is_called(process, other))
            continue;
        if (same)
            return NULL;
        same = other;
    }
    return same;
}

static int
host_load_compare(const void *a, const void *b)
{
    int64_t x = read_ns(*(json_object *const *)a, "ns"),
            y = read_ns(*(json_object *const *)b, "ns");

    return (y > x) - (y < x);
}

/* Merges a process that ended before its control group could be read with the only other process of
 * the same name. Returns a new array, sorted by time in descending order. */
static json_object *
host_load_merge(json_object *processes)
{
    g_autoptr(json_object) all = NULL;
    json_object *merged = json_object_new_array();

    /* Do not change the answer itself. */
    if (processes && json_object_deep_copy(processes, &all, NULL) != 0)
        return merged;
    for (size_t i = 0; i < vg_output_length(all); i++) {
        json_object *process = json_object_array_get_idx(all, i);
        json_object *same =
            vg_output_member(process, "cgroup") || !vg_output_member(process, "comm")
                ? NULL
                : host_load_same(all, process);
        if (!same) {
            vg_json_append(merged, json_object_get(process));
            continue;
        }
        host_load_add_to(same, process, "ns");
        host_load_add_to(same, process, "error_ns");
        host_load_add_to(same, process, "count");
        host_load_add_to(same, process, "pids");
    }
    json_object_array_sort(merged, host_load_compare);
    return merged;
}

json_object *
vg_host_process_rows(json_object *lost_to, int columns, bool utf8)
{
    json_object *rows = json_object_new_array();

    for (size_t i = 0; i < vg_output_length(lost_to); i++) {
        json_object *loss = json_object_array_get_idx(lost_to, i);
        g_autoptr(json_object) processes = host_load_merge(vg_output_member(loss, "processes"));
        for (size_t k = 0; k < vg_output_length(processes); k++)
            add_process(rows, json_object_array_get_idx(processes, k), columns, utf8);
        if (read_ns(loss, "others.ns") == 0 && read_ns(loss, "others.count") == 0)
            continue;
        json_object *row = json_object_new_object();
        vg_json_add_string(row, "comm", "others");
        vg_json_add(row, "ns", json_object_get(vg_output_member(loss, "others.ns")));
        vg_json_add(row, "count", json_object_get(vg_output_member(loss, "others.count")));
        vg_json_append(rows, row);
    }
    return rows;
}

/* ---- programs by CPU time ---- */

/* The maximum number of programs in tables. JSON contains all. */
#define PROGRAMS_SHOWN 8
/* The width of the columns before the control group. */
#define PROGRAM_COLUMNS 56

json_object *
vg_host_program_rows(json_object *programs, int64_t length_ns, int columns, bool utf8)
{
    json_object *rows = json_object_new_array();
    const int room = columns > 0 ? MAX(columns - PROGRAM_COLUMNS, CGROUP_MIN) : 4096;

    for (size_t i = 0; i < MIN(vg_output_length(programs), PROGRAMS_SHOWN); i++) {
        json_object *program = json_object_array_get_idx(programs, i);
        json_object *row = json_object_new_object();
        const char *cgroup = json_object_get_string(vg_output_member(program, "cgroup"));
        g_autofree char *end = cgroup ? cut_front(cgroup, room, utf8) : NULL;
        vg_json_add(row, "comm", json_object_get(vg_output_member(program, "comm")));
        vg_json_add(row, "ns", json_object_get(vg_output_member(program, "ns")));
        if (read_ns(program, "error_ns") > 0)
            vg_json_add_int64(row, "at_most",
                              read_ns(program, "ns") + read_ns(program, "error_ns"));
        add_share(row, "cores", vg_output_member(program, "ns"), length_ns);
        vg_json_add(row, "pids", json_object_get(vg_output_member(program, "pids")));
        vg_json_add_string(row, "cgroup", end);
        vg_json_append(rows, row);
    }
    return rows;
}

char *
vg_host_program_names(json_object *programs, int64_t length_ns, size_t top)
{
    GString *text = g_string_new(NULL);

    for (size_t i = 0; length_ns > 0 && i < MIN(vg_output_length(programs), top); i++) {
        json_object *program = json_object_array_get_idx(programs, i);
        g_string_append_printf(text, "%s%s %.2f", i > 0 ? ", " : "",
                               json_object_get_string(vg_output_member(program, "comm")),
                               (double)read_ns(program, "ns") / (double)length_ns);
    }
    return g_string_free(text, text->len == 0);
}
