/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/host-programs.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "host/proc-text.h"
#include "model/process-sum.h"

#define PROGRAMS_PERIOD_NS (10 * VG_NS_PER_S)
/* Readings take at most this fraction of a CPU: one thousandth. */
#define PROGRAMS_COST_PART 1000
/* The number of processes whose control groups are read: those with the most CPU time. */
#define PROGRAMS_NAMED_MAX VG_SUM_LOST_PROCESSES_MAX
/* The maximum number of generations of processes that ended between two readings. */
#define PROGRAMS_DEPTH_MAX 16

struct program {
    int32_t pid;
    int32_t parent;
    uint64_t start_ticks;
    uint64_t cpu_ticks;
    uint64_t child_ticks;  /* of children that the process waited for */
    uint64_t gained_ticks; /* growth of child_ticks since the last reading */
    uint64_t ended_ticks;  /* time of ended children that was counted before */
    uint64_t generation;   /* last reading that saw the process */
    int64_t ns;            /* since the last reading */
    bool of_vm;
    bool lost_vm; /* a child that ended was a VM */
    char comm[VG_COMM_LEN];
};

struct vg_host_programs {
    const char *proc;
    int64_t tick_ns;
    int64_t n_cpus;
    GHashTable *known; /* pid -> struct program */
    uint64_t generation;
    int64_t read_ns;  /* end of the window of the last reading; 0: there was none */
    int64_t period;   /* number of that reading's period */
    int64_t pause_ns; /* minimum time between that reading and the next */
};

vg_host_programs *
vg_host_programs_new(const char *proc, int64_t tick_ns, int64_t n_cpus)
{
    vg_host_programs *programs = g_new0(vg_host_programs, 1);

    programs->proc = proc;
    programs->tick_ns = tick_ns;
    programs->n_cpus = n_cpus;
    programs->known = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    return programs;
}

void
vg_host_programs_free(vg_host_programs *programs)
{
    if (!programs)
        return;
    g_hash_table_unref(programs->known);
    g_free(programs);
}

static bool
programs_read_text(const vg_host_programs *programs, int32_t pid, const char *file, char *text)
{
    char path[64 + VG_PROC_TEXT_MAX];

    snprintf(path, sizeof(path), "%s/%d/%s", programs->proc, pid, file);
    return vg_proc_read(path, text, VG_PROC_TEXT_MAX) > 0;
}

/* Returns the growth of a process counter. The counter only decreases when the kernel rounds. */
static uint64_t
programs_grown(uint64_t before, uint64_t now)
{
    return now > before ? now - before : 0;
}

/* Copies the name of a program. Kernel threads also have a number and their present work in their
 * names, which are removed. */
static void
programs_take_comm(struct program *program, const struct vg_proc_stat *stat)
{
    g_strlcpy(program->comm, stat->comm, sizeof(program->comm));
    if (stat->is_kernel)
        program->comm[strcspn(program->comm, "/:")] = '\0';
}

static void
programs_see(vg_host_programs *programs, int32_t pid, bool of_vm)
{
    void *key = GINT_TO_POINTER(pid);
    struct program *program = g_hash_table_lookup(programs->known, key);
    char text[VG_PROC_TEXT_MAX];
    struct vg_proc_stat stat;

    if (!programs_read_text(programs, pid, "stat", text) || !vg_proc_parse_stat(text, &stat))
        return;
    if (!program || program->start_ticks != stat.start_ticks) {
        program = g_new0(struct program, 1);
        program->pid = pid;
        program->start_ticks = stat.start_ticks;
        /* Do not count what ran before the first reading. */
        if (programs->read_ns == 0) {
            program->cpu_ticks = stat.cpu_ticks;
            program->child_ticks = stat.child_ticks;
        }
        g_hash_table_insert(programs->known, key, program);
    }
    program->ns = (int64_t)programs_grown(program->cpu_ticks, stat.cpu_ticks) * programs->tick_ns;
    program->gained_ticks = programs_grown(program->child_ticks, stat.child_ticks);
    program->cpu_ticks = stat.cpu_ticks;
    program->child_ticks = stat.child_ticks;
    program->parent = stat.parent;
    program->of_vm = of_vm;
    program->generation = programs->generation;
    program->ended_ticks = 0;
    program->lost_vm = false;
    programs_take_comm(program, &stat);
}

static GHashTable *
programs_pids_of_vms(const vg_proc_scan *scan)
{
    const GPtrArray *vms = vg_proc_scan_vms(scan);
    GHashTable *pids = g_hash_table_new(NULL, NULL);

    for (guint i = 0; i < vms->len; i++) {
        int32_t pid;
        for (unsigned k = 0; (pid = vg_proc_vm_pid_at(vms->pdata[i], k)) > 0; k++)
            g_hash_table_add(pids, GINT_TO_POINTER(pid));
    }
    return pids;
}

/* Finds the nearest existing ancestor of a process that ended, or NULL. */
static struct program *
programs_inheritor(const vg_host_programs *programs, const struct program *ended)
{
    struct program *above = NULL;
    int32_t pid = ended->parent;

    for (unsigned depth = 0; depth < PROGRAMS_DEPTH_MAX; depth++) {
        above = g_hash_table_lookup(programs->known, GINT_TO_POINTER(pid));
        if (!above || above->generation == programs->generation)
            return above;
        pid = above->parent;
    }
    return NULL;
}

static gboolean
programs_has_ended(void *key, void *value, void *data)
{
    (void)key;
    return ((const struct program *)value)->generation !=
           ((const vg_host_programs *)data)->generation;
}

/* Forgets processes that ended, and notes in their ancestors what was counted already. */
static void
programs_forget(vg_host_programs *programs)
{
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, programs->known);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct program *program = value;
        struct program *inheritor = programs_has_ended(NULL, value, programs)
                                        ? programs_inheritor(programs, program)
                                        : NULL;
        if (inheritor) {
            inheritor->ended_ticks += program->cpu_ticks + program->child_ticks;
            inheritor->lost_vm |= program->of_vm;
        }
    }
    g_hash_table_foreach_remove(programs->known, programs_has_ended, programs);
}

static int
programs_compare(const void *a, const void *b)
{
    const struct program *x = *(struct program *const *)a, *y = *(struct program *const *)b;

    if (x->ns != y->ns)
        return x->ns > y->ns ? -1 : 1;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

/* Returns the uncounted time of ended children, limited to the capacity of all CPUs. */
static int64_t
programs_of_children(const vg_host_programs *programs, const struct program *program,
                     int64_t length_ns)
{
    const uint64_t ticks = programs_grown(program->ended_ticks, program->gained_ticks);
    const int64_t most_ns = length_ns * programs->n_cpus;

    if (program->lost_vm)
        return 0;
    return ticks > (uint64_t)(most_ns / programs->tick_ns) ? most_ns
                                                           : (int64_t)ticks * programs->tick_ns;
}

/* Returns the programs that used CPU time, the highest first. The caller unrefs the array. */
static GPtrArray *
programs_list(vg_host_programs *programs, int64_t length_ns)
{
    GPtrArray *list = g_ptr_array_new();
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, programs->known);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct program *program = value;
        if (program->of_vm)
            continue;
        program->ns += programs_of_children(programs, program, length_ns);
        if (program->ns > 0)
            g_ptr_array_add(list, program);
    }
    g_ptr_array_sort(list, programs_compare);
    return list;
}

/* Fills rows for the programs with the most CPU time. */
static void
programs_fill(const vg_host_programs *programs, const GPtrArray *list, GArray *rows)
{
    char text[VG_PROC_TEXT_MAX];

    g_array_set_size(rows, 0);
    for (guint i = 0; i < MIN(list->len, PROGRAMS_NAMED_MAX); i++) {
        const struct program *program = list->pdata[i];
        struct vg_lost_process row = {.pid = program->pid, .pids = 1, .ns = program->ns};
        g_strlcpy(row.comm, program->comm, sizeof(row.comm));
        if (programs_read_text(programs, program->pid, "cgroup", text))
            vg_proc_parse_cgroup(text, row.cgroup, sizeof(row.cgroup));
        vg_process_sum_add(rows, &row);
    }
    vg_window_sort_lost_processes(rows);
    if (rows->len > VG_WINDOW_PROGRAMS_MAX)
        g_array_set_size(rows, VG_WINDOW_PROGRAMS_MAX);
}

void
vg_host_programs_read(vg_host_programs *programs, const vg_proc_scan *scan, int64_t end_epoch_ns,
                      struct vg_window *window)
{
    const int64_t period = end_epoch_ns / PROGRAMS_PERIOD_NS;
    const bool is_first = programs->read_ns == 0;

    if (!is_first &&
        (period == programs->period || window->end_ns - programs->read_ns < programs->pause_ns))
        return;
    const int64_t begin_cost_ns = vg_clock_thread_cpu_ns();
    g_autoptr(GHashTable) of_vms = programs_pids_of_vms(scan);
    g_autoptr(GArray) pids = g_array_new(FALSE, FALSE, sizeof(int32_t));
    programs->generation++;
    vg_proc_scan_pids(scan, pids);
    for (guint i = 0; i < pids->len; i++) {
        const int32_t pid = g_array_index(pids, int32_t, i);
        programs_see(programs, pid, g_hash_table_contains(of_vms, GINT_TO_POINTER(pid)));
    }
    programs_forget(programs);
    if (!is_first) {
        window->programs_ns = window->end_ns - programs->read_ns;
        window->programs_end_ns = window->end_ns;
        g_autoptr(GPtrArray) list = programs_list(programs, window->programs_ns);
        programs_fill(programs, list, window->programs);
    }
    programs->read_ns = window->end_ns;
    programs->period = period;
    programs->pause_ns = (vg_clock_thread_cpu_ns() - begin_cost_ns) * PROGRAMS_COST_PART;
}
