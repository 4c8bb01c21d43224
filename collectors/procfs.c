/* SPDX-License-Identifier: Apache-2.0
 *
 * Polls what /proc says of vCPU threads, once a window. It needs no privilege and no tracer, and
 * so knows less: how long a vCPU waited, not why nor for whom. Figures of a thread are from one
 * reading of it to the next, which is the window but for the few milliseconds that reading all of
 * them takes.
 */
#include "config.h"

#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "collectors/collector.h"
#include "collectors/proc-scan.h"
#include "collectors/vcpu-files.h"
#include "collectors/vcpu-meter.h"

/* Threads read between two beats of the heart: 20 us each. */
#define READS_PER_BEAT 256
/* Where there is no limit of open files, ours. */
#define FDS_MAX 65536

struct vcpu {
    struct vg_vcpu_files files;
    struct vg_vcpu_meter meter;
    uint64_t start_ticks;
    uint32_t vm_id;
    uint64_t generation; /* of the last reading */
};

struct vm {
    GArray *cpus; /* int32_t, ascending: it has been seen on these */
    bool guest_moved;
    uint64_t generation;
};

struct procfs {
    struct vg_collector base; /* first */
    char *proc;
    int64_t window_ns;
    int64_t tick_ns;
    int fds_left;
    vg_proc_scan *scan;
    GHashTable *vcpus; /* tid -> struct vcpu */
    GHashTable *vms;   /* id -> struct vm */
    uint64_t generation;
    int64_t cost_ns; /* CPU time of the thread at the end of the last window */
    unsigned read;   /* threads in this round, and how many of them told only ticks */
    unsigned by_ticks;
    struct vg_told_state told;
};

static void
vm_free(void *data)
{
    struct vm *vm = data;

    g_array_unref(vm->cpus);
    g_free(vm);
}

static void
tell_state(struct procfs *p, const struct vg_report_sink *sink, enum vg_collector_state state,
           const char *text)
{
    vg_report_tell_state(&p->told, sink, p->base.ops->name, state, text);
}

/* ---- one round of reading ---- */

static struct vm *
find_vm(struct procfs *p, uint32_t id)
{
    void *key = GUINT_TO_POINTER(id);
    struct vm *vm = g_hash_table_lookup(p->vms, key);

    if (!vm) {
        vm = g_new0(struct vm, 1);
        vm->cpus = g_array_new(FALSE, FALSE, sizeof(int32_t));
        g_hash_table_insert(p->vms, key, vm);
    }
    vm->generation = p->generation;
    return vm;
}

static void
add_cpu(struct vm *vm, int32_t cpu)
{
    unsigned at = 0;

    while (at < vm->cpus->len && g_array_index(vm->cpus, int32_t, at) < cpu)
        at++;
    if (cpu >= 0 && (at == vm->cpus->len || g_array_index(vm->cpus, int32_t, at) != cpu))
        g_array_insert_val(vm->cpus, at, cpu);
}

static void
start_vcpu(struct procfs *p, struct vcpu *vcpu, const struct vg_proc_vm *vm, int32_t tid)
{
    *vcpu = (struct vcpu){.vm_id = vm->id};
    vg_vcpu_files_open(&vcpu->files, p->proc, vm->pid, tid, &p->fds_left);
}

static struct vcpu *
find_vcpu(struct procfs *p, const struct vg_proc_vm *vm, int32_t tid)
{
    void *key = GINT_TO_POINTER(tid);
    struct vcpu *vcpu = g_hash_table_lookup(p->vcpus, key);

    if (!vcpu) {
        vcpu = g_new0(struct vcpu, 1);
        start_vcpu(p, vcpu, vm, tid);
        g_hash_table_insert(p->vcpus, key, vcpu);
    } else if (vcpu->vm_id != vm->id) {
        vg_vcpu_files_close(&vcpu->files, &p->fds_left);
        start_vcpu(p, vcpu, vm, tid);
    }
    return vcpu;
}

/* false: nothing to tell of this thread yet, or no more. */
static bool
read_vcpu(struct procfs *p, const struct vg_proc_vm *vm, struct vm *known, int32_t tid,
          struct vg_cpu_figures *ret)
{
    struct vcpu *vcpu = find_vcpu(p, vm, tid);
    struct vg_vcpu_moment moment;
    bool there = vg_vcpu_files_read(&vcpu->files, p->proc, p->tick_ns, &moment);

    /* The tid may be that of another thread by now: the open files are still those of the first. */
    if (!there || (vcpu->meter.started && moment.start_ticks != vcpu->start_ticks)) {
        vg_vcpu_files_close(&vcpu->files, &p->fds_left);
        start_vcpu(p, vcpu, vm, tid);
        if (!vg_vcpu_files_read(&vcpu->files, p->proc, p->tick_ns, &moment))
            return false;
    }
    vcpu->generation = p->generation;
    vcpu->start_ticks = moment.start_ticks;
    p->read++;
    p->by_ticks += vcpu->files.no_schedstat;
    add_cpu(known, moment.cpu);
    bool told = vg_vcpu_meter_read(&vcpu->meter, &moment.counters, ret);
    known->guest_moved |= vcpu->meter.guest_moved;
    return told;
}

static void
read_vm(struct procfs *p, const struct vg_proc_vm *vm, struct vg_window *window, vg_thread *self)
{
    struct vm *known = find_vm(p, vm->id);
    struct vg_vm_sample sample;

    vg_vm_sample_init(&sample);
    for (unsigned i = 0; i < vm->vcpus->len; i++) {
        const struct vg_proc_vcpu *vcpu = &g_array_index(vm->vcpus, struct vg_proc_vcpu, i);
        struct vg_vcpu_sample of_vcpu = {.tid = vcpu->tid, .index = vcpu->index};
        if (read_vcpu(p, vm, known, vcpu->tid, &of_vcpu.cpu)) {
            vg_cpu_figures_add(&sample.cpu, &of_vcpu.cpu);
            g_array_append_val(sample.vcpus, of_vcpu);
        }
        if (p->read % READS_PER_BEAT == 0)
            vg_thread_beat(self);
    }
    sample.id = vm->id;
    sample.pid = vm->pid;
    sample.guest_known = known->guest_moved;
    g_strlcpy(sample.name, vm->name, sizeof(sample.name));
    g_strlcpy(sample.uuid, vm->uuid, sizeof(sample.uuid));
    g_array_append_vals(sample.cpus, known->cpus->data, known->cpus->len);
    struct vg_lost_to lost = {.kind = VG_AGGRESSOR_HOST_UNKNOWN,
                              .ns = sample.cpu.preempt_ns + sample.cpu.wake_wait_ns,
                              .count = sample.cpu.preemptions};
    if (lost.ns > 0 || lost.count > 0)
        g_array_append_val(sample.lost_to, lost);
    /* A VM of which nothing is known yet appears when something is. */
    bool known_something = sample.vcpus->len > 0;
    g_array_append_val(window->vms, sample);
    if (!known_something)
        g_array_set_size(window->vms, window->vms->len - 1);
}

static void
forget_gone(struct procfs *p)
{
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, p->vcpus);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct vcpu *vcpu = value;
        if (vcpu->generation == p->generation)
            continue;
        vg_vcpu_files_close(&vcpu->files, &p->fds_left);
        g_hash_table_iter_remove(&iter);
    }
    g_hash_table_iter_init(&iter, p->vms);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        if (((struct vm *)value)->generation != p->generation)
            g_hash_table_iter_remove(&iter);
    }
}

static int
read_all(struct procfs *p, struct vg_window *window, vg_thread *self, GError **err)
{
    if (vg_proc_scan_update(p->scan, vg_clock_monotonic_ns(), err) < 0)
        return -1;
    const GPtrArray *vms = vg_proc_scan_vms(p->scan);
    p->generation++;
    p->read = 0;
    p->by_ticks = 0;
    for (unsigned i = 0; i < vms->len; i++)
        read_vm(p, vms->pdata[i], window, self);
    forget_gone(p);
    vg_window_sort_vms(window);
    return 0;
}

/* ---- windows ---- */

static void
report_health(struct procfs *p, const struct vg_report_sink *sink)
{
    unsigned vms = vg_proc_scan_vms(p->scan)->len;
    g_autofree char *text = g_strdup_printf("%u VM%s", vms, vms == 1 ? "" : "s");

    if (p->read == 0 || p->by_ticks < p->read) {
        tell_state(p, sink, VG_COLLECTOR_OK, text);
        return;
    }
    g_autofree char *less = g_strdup_printf(
        "%s; no schedstat in '%s': waits for a CPU are not seen, and run time comes in steps of "
        "%d ms (a kernel with CONFIG_SCHED_INFO has it)",
        text, p->proc, (int)(p->tick_ns / VG_NS_PER_MS));
    tell_state(p, sink, VG_COLLECTOR_DEGRADED, less);
}

/* Reads everything; from the second time on, that makes a window, whose times are those of the
 * grid. false: it could not be read. */
static bool
close_window(struct procfs *p, vg_thread *self, const struct vg_report_sink *sink, int64_t begin_ns,
             int64_t end_ns)
{
    g_autoptr(GError) err = NULL;
    g_autoptr(vg_report) report = vg_report_new(VG_REPORT_WINDOW, p->base.ops->name);

    vg_window_init(&report->window, false);
    if (read_all(p, &report->window, self, &err) < 0) {
        tell_state(p, sink, VG_COLLECTOR_FAILED, err->message);
        return false;
    }
    report_health(p, sink);
    int64_t cost_ns = vg_clock_thread_cpu_ns();
    report->window.begin_ns = begin_ns;
    report->window.end_ns = end_ns;
    report->clock_offset_ns = vg_clock_realtime_ns() - vg_clock_monotonic_ns();
    report->provenance = (struct vg_provenance){
        .source = "procfs", .confidence = 0.5, .cost_ns = cost_ns - p->cost_ns};
    p->cost_ns = cost_ns;
    if (begin_ns > 0)
        sink->put(sink->data, g_steal_pointer(&report));
    return true;
}

static void
run(vg_collector *collector, vg_thread *self, const struct vg_report_sink *sink)
{
    struct procfs *p = (struct procfs *)collector;
    int64_t begin_ns = 0; /* 0: nothing has been read yet */
    int64_t end_ns = vg_clock_monotonic_ns() / p->window_ns * p->window_ns + p->window_ns;

    tell_state(p, sink, VG_COLLECTOR_STARTING, "waiting for the first window");
    while (vg_thread_sleep_until(self, end_ns)) {
        /* Who slept too long makes one long window of it. */
        int64_t late_ns = vg_clock_monotonic_ns() - end_ns;
        end_ns += late_ns / p->window_ns * p->window_ns;
        if (close_window(p, self, sink, begin_ns, end_ns))
            begin_ns = end_ns;
        end_ns += p->window_ns;
    }
}

static void
free_procfs(vg_collector *collector)
{
    struct procfs *p = (struct procfs *)collector;

    p->generation++;
    forget_gone(p);
    g_hash_table_unref(p->vcpus);
    g_hash_table_unref(p->vms);
    vg_proc_scan_free(p->scan);
    g_free(p->told.text);
    g_free(p->proc);
    g_free(p);
}

static const struct vg_collector_ops procfs_ops = {
    .name = "procfs",
    .measures_windows = true,
    .run = run,
    .free = free_procfs,
};

vg_collector *
vg_procfs_new(const char *proc, int64_t window_ns)
{
    struct procfs *p = g_new0(struct procfs, 1);
    struct rlimit files;

    p->base.ops = &procfs_ops;
    p->proc = g_strdup(proc);
    p->window_ns = window_ns;
    p->tick_ns = VG_NS_PER_S / MAX(sysconf(_SC_CLK_TCK), 1);
    /* Half of what the process may have: the other half is for everybody else. */
    p->fds_left = FDS_MAX;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur / 2 < FDS_MAX)
        p->fds_left = (int)(files.rlim_cur / 2);
    p->scan = vg_proc_scan_new(proc);
    p->vcpus = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    p->vms = g_hash_table_new_full(NULL, NULL, NULL, vm_free);
    return &p->base;
}
