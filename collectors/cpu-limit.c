/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/cpu-limit.h"

#include <stdio.h>
#include <string.h>

#include "host/proc-text.h"

#define CPU_LIMIT_PATH_MAX 1024
/* libvirt creates a group per vCPU, in the VM's group, in a scope, in a slice. */
#define CPU_LIMIT_LEVELS 8
/* A VM that was kept from its CPUs for less than 1/100 of its time is not checked. */
#define CPU_LIMIT_PART 100
/* After this many windows, a VM that no quota has stopped so far is checked again. */
#define CPU_LIMIT_ROUNDS 16

struct cpu_limit_vm {
    int64_t throttled_ns;
    int64_t unreported_ns; /* the part that no window has reported as a loss yet */
    uint64_t read;         /* round of the last reading; 0: none */
    uint64_t seen;
};

struct vg_cpu_limits {
    const char *proc;
    const char *cgroup;
    GHashTable *vms; /* pid -> struct cpu_limit_vm */
    uint64_t round;
};

vg_cpu_limits *
vg_cpu_limits_new(const char *proc, const char *cgroup)
{
    vg_cpu_limits *limits = g_new0(vg_cpu_limits, 1);

    limits->proc = proc;
    limits->cgroup = cgroup;
    limits->round = 1; /* 0 means that a VM was not read */
    limits->vms = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    return limits;
}

void
vg_cpu_limits_free(vg_cpu_limits *limits)
{
    if (!limits)
        return;
    g_hash_table_unref(limits->vms);
    g_free(limits);
}

/* Adds the throttled time of a control group and of the groups that contain it to the sums of their
 * levels, unless they were counted before. */
static void
cpu_limit_read_groups(const vg_cpu_limits *limits, char *path, GHashTable *seen,
                      int64_t sums[CPU_LIMIT_LEVELS])
{
    char file[2 * CPU_LIMIT_PATH_MAX], text[VG_PROC_TEXT_MAX];
    char *end;

    for (int level = 0; level < CPU_LIMIT_LEVELS && (end = strrchr(path, '/')) &&
                        g_hash_table_add(seen, g_strdup(path));
         level++, *end = '\0') {
        int64_t ns;
        snprintf(file, sizeof(file), "%s%s/cpu.stat", limits->cgroup, path);
        if (vg_proc_read(file, text, sizeof(text)) > 0 && vg_proc_parse_throttled(text, &ns))
            sums[level] += ns;
    }
}

/* Returns how long quotas have kept a VM's vCPU threads from their CPUs. This is the maximum of all
 * levels, because two levels may stop a thread at the same time. */
static int64_t
cpu_limit_read(const vg_cpu_limits *limits, const struct vg_vm_sample *sample)
{
    g_autoptr(GHashTable) seen = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    char file[CPU_LIMIT_PATH_MAX], text[VG_PROC_TEXT_MAX], path[CPU_LIMIT_PATH_MAX];
    int64_t sums[CPU_LIMIT_LEVELS] = {0}, most = 0;

    for (guint i = 0; i < sample->vcpus->len; i++) {
        int32_t tid = g_array_index(sample->vcpus, struct vg_vcpu_sample, i).tid;
        snprintf(file, sizeof(file), "%s/%d/task/%d/cgroup", limits->proc, sample->pid, tid);
        if (vg_proc_read(file, text, sizeof(text)) > 0 &&
            vg_proc_parse_cpu_cgroup(text, path, sizeof(path)))
            cpu_limit_read_groups(limits, path, seen, sums);
    }
    for (int level = 0; level < CPU_LIMIT_LEVELS; level++)
        most = MAX(most, sums[level]);
    return most;
}

/* Removes a part of a loss. */
static int64_t
cpu_limit_take(struct vg_lost_to *lost, int64_t ns)
{
    if (ns <= 0 || lost->ns <= 0)
        return 0;
    const double left = (double)(lost->ns - ns) / (double)lost->ns;
    lost->vcpu_ns = (int64_t)((double)lost->vcpu_ns * left);
    lost->emulator_ns = lost->kind == VG_AGGRESSOR_VM || lost->kind == VG_AGGRESSOR_SELF
                            ? lost->ns - ns - lost->vcpu_ns
                            : 0;
    lost->ns -= ns;
    return ns;
}

static void
cpu_limit_take_processes(GArray *processes, double left)
{
    for (guint i = 0; i < processes->len; i++) {
        struct vg_lost_process *process = &g_array_index(processes, struct vg_lost_process, i);
        process->ns = (int64_t)((double)process->ns * left);
    }
}

/* Takes what idle CPUs did not explain from all other holders in proportion. It is unknown which of
 * them ran while the quota would have kept the VM away anyway. */
static int64_t
cpu_limit_take_from_all(struct vg_vm_sample *sample, int64_t ns)
{
    int64_t all = 0, taken = 0;

    for (guint i = 0; i < sample->lost_to->len; i++)
        all += g_array_index(sample->lost_to, struct vg_lost_to, i).ns;
    if (all <= 0)
        return 0;
    const double part = (double)MIN(ns, all) / (double)all;
    for (guint i = 0; i < sample->lost_to->len; i++) {
        struct vg_lost_to *lost = &g_array_index(sample->lost_to, struct vg_lost_to, i);
        taken += cpu_limit_take(lost, (int64_t)((double)lost->ns * part));
        if (lost->kind == VG_AGGRESSOR_HOST_USER)
            cpu_limit_take_processes(sample->lost_processes, 1 - part);
    }
    return taken;
}

static void
cpu_limit_move(struct vg_vm_sample *sample, int64_t ns)
{
    struct vg_lost_to limit = {.kind = VG_AGGRESSOR_LIMIT};

    for (guint i = 0; i < sample->lost_to->len; i++) {
        struct vg_lost_to *lost = &g_array_index(sample->lost_to, struct vg_lost_to, i);
        if (lost->kind != VG_AGGRESSOR_HOST_IDLE)
            continue;
        limit.ns = cpu_limit_take(lost, MIN(ns, lost->ns));
        limit.count = lost->count;
        lost->count = 0;
        if (lost->ns == 0)
            g_array_remove_index(sample->lost_to, i);
        break;
    }
    limit.ns += cpu_limit_take_from_all(sample, ns - limit.ns);
    g_array_append_val(sample->lost_to, limit);
    vg_window_sort_lost_to(sample->lost_to);
}

static void
cpu_limit_settle_vm(const vg_cpu_limits *limits, struct cpu_limit_vm *vm,
                    struct vg_vm_sample *sample)
{
    int64_t throttled_ns = cpu_limit_read(limits, sample);

    if (vm->read == limits->round - 1) {
        /* The kernel reports the time of a stop when the stop ends. */
        int64_t due = vm->unreported_ns + MAX(throttled_ns - vm->throttled_ns, 0);
        int64_t ns = MIN(due, sample->cpu.preempt_ns);
        vm->unreported_ns = MIN(due - ns, sample->cpu.preempt_ns);
        if (ns > 0)
            cpu_limit_move(sample, ns);
    }
    vm->throttled_ns = throttled_ns;
    vm->read = limits->round;
}

static gboolean
cpu_limit_is_over(void *pid, void *vm, void *limits)
{
    (void)pid;
    return ((struct cpu_limit_vm *)vm)->seen != ((vg_cpu_limits *)limits)->round;
}

void
vg_cpu_limits_settle(vg_cpu_limits *limits, struct vg_window *window)
{
    limits->round++;
    for (guint i = 0; i < window->vms->len; i++) {
        struct vg_vm_sample *sample = &g_array_index(window->vms, struct vg_vm_sample, i);
        struct cpu_limit_vm *vm = g_hash_table_lookup(limits->vms, GINT_TO_POINTER(sample->pid));
        if (!vm) {
            vm = g_new0(struct cpu_limit_vm, 1);
            g_hash_table_insert(limits->vms, GINT_TO_POINTER(sample->pid), vm);
        }
        vm->seen = limits->round;
        bool waits = sample->cpu.preempt_ns > sample->cpu.observed_ns / CPU_LIMIT_PART;
        /* A VM that was never stopped is unlikely to have a quota. */
        if (waits &&
            (vm->throttled_ns > 0 || limits->round - vm->read >= CPU_LIMIT_ROUNDS || vm->read == 0))
            cpu_limit_settle_vm(limits, vm, sample);
    }
    g_hash_table_foreach_remove(limits->vms, cpu_limit_is_over, limits);
}
