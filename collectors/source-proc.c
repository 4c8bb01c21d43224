/* SPDX-License-Identifier: Apache-2.0
 *
 * The last rung of the ladder: polls /proc for vCPU threads, once per window. It needs no
 * privileges and no tracer, so it knows less: how long a vCPU waited, but not why, nor for which
 * thread. The figures of a thread are those between two of its readings. This is the window, except
 * for the few milliseconds that it takes to read all threads.
 */
#include "config.h"

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "collectors/cpu-source.h"
#include "collectors/vcpu-files.h"
#include "collectors/vcpu-meter.h"
#include "host/proc-scan.h"

#define NAME "procfs"

/* The number of threads read between two heartbeats: 20 us each. */
#define READS_PER_BEAT 256
/* The confidence of counters that are read periodically. */
#define CONFIDENCE 0.5
/* The limit of open files if the process has none. */
#define FDS_MAX 65536

struct vcpu {
    struct vg_vcpu_files files;
    struct vg_vcpu_meter meter;
    uint64_t start_ticks;
    uint32_t vm_id;
    uint64_t generation; /* of the last reading */
};

struct vm {
    bool guest_moved;
    uint64_t generation;
};

struct source {
    struct vg_cpu_source base; /* first */
    char *proc;
    int64_t tick_ns;
    int fds_left;
    GHashTable *vcpus; /* tid -> struct vcpu */
    GHashTable *vms;   /* id -> struct vm */
    uint64_t generation;
    unsigned read; /* threads in this round, and those of them with ticks only */
    unsigned by_ticks;
};

/* ---- one round of reading ---- */

static struct vm *
proc_find_vm(struct source *p, uint32_t id)
{
    void *key = GUINT_TO_POINTER(id);
    struct vm *vm = g_hash_table_lookup(p->vms, key);

    if (!vm) {
        vm = g_new0(struct vm, 1);
        g_hash_table_insert(p->vms, key, vm);
    }
    vm->generation = p->generation;
    return vm;
}

static void
start_vcpu(struct source *p, struct vcpu *vcpu, const struct vg_proc_vm *vm, int32_t tid)
{
    *vcpu = (struct vcpu){.vm_id = vm->id};
    vg_vcpu_files_open(&vcpu->files, p->proc, vm->pid, tid, &p->fds_left);
}

static struct vcpu *
find_vcpu(struct source *p, const struct vg_proc_vm *vm, int32_t tid)
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

/* Reads a vCPU. Returns false if there is nothing to report about this thread (any more). Sets
 * *ret_cpu to its last CPU. */
static bool
read_vcpu(struct source *p, const struct vg_proc_vm *vm, struct vm *known, int32_t tid,
          struct vg_cpu_figures *ret, int32_t *ret_cpu)
{
    struct vcpu *vcpu = find_vcpu(p, vm, tid);
    struct vg_vcpu_moment moment;
    bool there = vg_vcpu_files_read(&vcpu->files, p->proc, p->tick_ns, &moment);

    /* Another thread may have the tid by now. The open files still belong to the first thread. */
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
    bool has_figures = vg_vcpu_meter_read(&vcpu->meter, &moment.counters, ret);
    known->guest_moved |= vcpu->meter.guest_moved;
    *ret_cpu = moment.cpu;
    return has_figures;
}

static void
beat_now_and_then(const struct source *p, vg_thread *self)
{
    if (p->read % READS_PER_BEAT == 0)
        vg_thread_beat(self);
}

/* Reads a VM. Returns whether its guest time advances. */
static bool
proc_read_vm(struct source *p, const struct vg_proc_vm *vm, struct vg_window *window,
             vg_thread *self)
{
    struct vm *known = proc_find_vm(p, vm->id);
    struct vg_vm_sample sample;

    vg_vm_sample_init(&sample);
    for (unsigned i = 0; i < vm->vcpus->len; i++) {
        const struct vg_proc_vcpu *vcpu = &g_array_index(vm->vcpus, struct vg_proc_vcpu, i);
        struct vg_vcpu_sample of_vcpu = {.tid = vcpu->tid, .index = vcpu->index};
        int32_t cpu;
        if (read_vcpu(p, vm, known, vcpu->tid, &of_vcpu.cpu, &cpu)) {
            vg_cpu_figures_add(&sample.cpu, &of_vcpu.cpu);
            vg_window_add_last_place(sample.places, cpu, of_vcpu.cpu.run_ns);
            g_array_append_val(sample.vcpus, of_vcpu);
        }
        beat_now_and_then(p, self);
    }
    sample.id = vm->id;
    sample.pid = vm->pid;
    sample.guest_known = known->guest_moved;
    g_strlcpy(sample.name, vm->name, sizeof(sample.name));
    g_strlcpy(sample.uuid, vm->uuid, sizeof(sample.uuid));
    struct vg_lost_to lost = {.kind = VG_AGGRESSOR_HOST_UNKNOWN,
                              .ns = sample.cpu.preempt_ns + sample.cpu.wake_wait_ns,
                              .count = sample.cpu.preemptions};
    if (lost.ns > 0 || lost.count > 0)
        g_array_append_val(sample.lost_to, lost);
    /* A VM appears when something about it is known. */
    bool known_something = sample.vcpus->len > 0;
    g_array_append_val(window->vms, sample);
    if (!known_something)
        g_array_set_size(window->vms, window->vms->len - 1);
    return known->guest_moved;
}

static void
proc_forget_gone(struct source *p)
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

/* ---- the source ---- */

static int
proc_open_source(vg_cpu_source *source, GError **err)
{
    struct source *p = (struct source *)source;

    if (access(p->proc, R_OK | X_OK) != 0)
        return vg_error_errno(err, errno, "cannot read '%s'", p->proc);
    return 0;
}

static void
proc_close_source(vg_cpu_source *source)
{
    struct source *p = (struct source *)source;

    p->generation++;
    proc_forget_gone(p);
}

/* Performs the first reading of new vCPUs, with which all knowledge of a VM starts. */
static int
proc_watch(vg_cpu_source *source, const GPtrArray *vms, vg_thread *self, GError **err)
{
    struct source *p = (struct source *)source;
    struct vg_cpu_figures figures;
    int32_t cpu;

    (void)err;
    for (unsigned i = 0; i < vms->len; i++) {
        const struct vg_proc_vm *vm = vms->pdata[i];
        struct vm *known = proc_find_vm(p, vm->id);
        for (unsigned k = 0; k < vm->vcpus->len; k++) {
            int32_t tid = g_array_index(vm->vcpus, struct vg_proc_vcpu, k).tid;
            if (!g_hash_table_contains(p->vcpus, GINT_TO_POINTER(tid)))
                read_vcpu(p, vm, known, tid, &figures, &cpu);
            beat_now_and_then(p, self);
        }
    }
    return 0;
}

static void
proc_describe(const struct source *p, bool guest_moved, struct vg_provenance *ret)
{
    static const char not_told[] = "/proc shows how long a thread waited, but not why";
    static const char no_schedstat[] = "/proc has no schedstat; the kernel needs CONFIG_SCHED_INFO";
    bool by_ticks = p->read > 0 && p->by_ticks == p->read;

    ret->confidence = CONFIDENCE;
    vg_provenance_set_all(ret, NAME, CONFIDENCE);
    if (by_ticks) {
        ret->measures[VG_MEASURE_RUN].confidence = CONFIDENCE / 2;
        vg_provenance_lacks(ret, VG_MEASURE_WAIT, no_schedstat);
    }
    vg_provenance_lacks(ret, VG_MEASURE_WAIT_KINDS, not_told);
    vg_provenance_lacks(ret, VG_MEASURE_LOST_TO, not_told);
    vg_provenance_lacks(ret, VG_MEASURE_EXITS, "/proc does not count entries and exits");
    if (!guest_moved)
        vg_provenance_lacks(ret, VG_MEASURE_GUEST, "the guest time in /proc does not advance");
}

static int
proc_read_source(vg_cpu_source *source, const GPtrArray *vms, vg_thread *self,
                 struct vg_window *window, struct vg_provenance *provenance, GError **err)
{
    struct source *p = (struct source *)source;
    bool guest_moved = false;

    (void)err;
    p->generation++;
    p->read = 0;
    p->by_ticks = 0;
    for (unsigned i = 0; i < vms->len; i++)
        guest_moved |= proc_read_vm(p, vms->pdata[i], window, self);
    proc_forget_gone(p);
    vg_window_sort_vms(window);
    proc_describe(p, guest_moved, provenance);
    return 0;
}

static void
proc_free_source(vg_cpu_source *source)
{
    struct source *p = (struct source *)source;

    proc_close_source(source);
    g_hash_table_unref(p->vcpus);
    g_hash_table_unref(p->vms);
    g_free(p->proc);
    g_free(p);
}

static const struct vg_cpu_source_ops proc_ops = {
    .name = NAME,
    .levels = 1,
    .open = proc_open_source,
    .close = proc_close_source,
    .watch = proc_watch,
    .read = proc_read_source,
    .free = proc_free_source,
};

vg_cpu_source *
vg_source_proc_new(const char *proc)
{
    struct source *p = g_new0(struct source, 1);
    struct rlimit files;

    p->base.ops = &proc_ops;
    p->proc = g_strdup(proc);
    p->tick_ns = VG_NS_PER_S / MAX(sysconf(_SC_CLK_TCK), 1);
    /* Use half of the process's limit and leave the other half to the rest of vgpud. */
    p->fds_left = FDS_MAX;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur / 2 < FDS_MAX)
        p->fds_left = (int)(files.rlim_cur / 2);
    p->vcpus = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    p->vms = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    return &p->base;
}
