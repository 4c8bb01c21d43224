/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/perf-watch.h"

#include <dirent.h>
#include <string.h>

#include "base/clock.h"
#include "host/proc-scan.h"
#include "host/proc-text.h"

/* A runnable thread that has not run for this long has been waiting since the first check. */
#define SETTLED_NS (VG_NS_PER_S / 2)
/* The number of new threads between two heartbeats: some 30 us each. */
#define VCPUS_PER_BEAT 128

struct vcpu {
    int32_t tid;
    int32_t pid;
    bool is_kvm;
    bool settled; /* the ledger knows its state */
    /* The time of the first check, and the counters at that time. */
    int64_t begin_ns;
    uint64_t timeslices;
    uint64_t run_ns;
    struct vg_guest_ticks guest;
    uint64_t generation;
};

struct vm {
    uint32_t id;         /* in the scan */
    uint32_t process_id; /* in the topology */
    int32_t pid;
    char name[VG_VM_NAME_MAX];
    char uuid[VG_UUID_LEN];
    bool guest_known;
    uint64_t generation;
};

/* A vCPU that slept at that time. */
struct sleeper {
    int64_t t_ns;
    int32_t tid;
    int32_t cpu;
};

struct vg_perf_watch {
    char *proc;
    int64_t tick_ns;
    GHashTable *vcpus; /* tid -> struct vcpu */
    GHashTable *vms;   /* id in the scan -> struct vm */
    GArray *sleepers;  /* struct sleeper, earliest first */
    uint64_t generation;
};

vg_perf_watch *
vg_perf_watch_new(const char *proc, int64_t tick_ns)
{
    vg_perf_watch *watch = g_new0(vg_perf_watch, 1);

    watch->proc = g_strdup(proc);
    watch->tick_ns = tick_ns;
    watch->vcpus = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    watch->vms = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    watch->sleepers = g_array_new(FALSE, FALSE, sizeof(struct sleeper));
    return watch;
}

void
vg_perf_watch_free(vg_perf_watch *watch)
{
    if (!watch)
        return;
    g_array_unref(watch->sleepers);
    g_hash_table_unref(watch->vms);
    g_hash_table_unref(watch->vcpus);
    g_free(watch->proc);
    g_free(watch);
}

/* ---- vCPUs to which nothing happens ---- */

/* Notes the state of the thread and the time after the check. Earlier events have been recorded by
 * then and take precedence. */
static void
note_state(vg_perf_watch *watch, struct vcpu *vcpu)
{
    struct vg_proc_stat stat;
    struct vg_proc_schedstat sched;

    if (!vg_proc_read_thread(watch->proc, vcpu->pid, vcpu->tid, &stat, &sched))
        return;
    vcpu->begin_ns = vg_clock_monotonic_ns();
    vcpu->timeslices = sched.timeslices;
    vcpu->run_ns = sched.run_ns;
    const struct sleeper sleeper = {vcpu->begin_ns, vcpu->tid, stat.cpu};
    if (stat.state != 'R')
        g_array_append_val(watch->sleepers, sleeper);
}

void
vg_perf_watch_settle(vg_perf_watch *watch, vg_cpu_ledger *ledger, int64_t t_ns)
{
    unsigned n = 0;

    for (; n < watch->sleepers->len; n++) {
        const struct sleeper *s = &g_array_index(watch->sleepers, struct sleeper, n);
        if (s->t_ns > t_ns)
            break;
        vg_cpu_ledger_assume(ledger, s->tid, VG_ASSUMED_BLOCKED, s->cpu, s->t_ns);
        struct vcpu *vcpu = g_hash_table_lookup(watch->vcpus, GINT_TO_POINTER(s->tid));
        if (vcpu)
            vcpu->settled = true;
    }
    if (n > 0)
        g_array_remove_range(watch->sleepers, 0, n);
}

/* Finds the state of a thread that was runnable. After a while, its counters show whether it has
 * been running or waiting all the time. */
static void
assume(vg_perf_watch *watch, struct vcpu *vcpu, vg_cpu_ledger *ledger)
{
    struct vg_proc_stat stat;
    struct vg_proc_schedstat sched;
    enum vg_assumed assumed = VG_ASSUMED_WAITING;

    if (!vg_proc_read_thread(watch->proc, vcpu->pid, vcpu->tid, &stat, &sched))
        return;
    if (sched.timeslices != vcpu->timeslices || stat.state != 'R') {
        /* The thread was switched to or from. If this was not recorded, start again. */
        note_state(watch, vcpu);
        return;
    }
    if (sched.run_ns > vcpu->run_ns)
        assumed = VG_ASSUMED_RUNNING;
    else if (vg_clock_monotonic_ns() - vcpu->begin_ns < SETTLED_NS)
        return;
    vg_cpu_ledger_assume(ledger, vcpu->tid, assumed, stat.cpu, vcpu->begin_ns);
    vcpu->settled = true;
}

void
vg_perf_watch_assume(vg_perf_watch *watch, vg_cpu_ledger *ledger)
{
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, watch->vcpus);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        if (!((struct vcpu *)value)->settled)
            assume(watch, value, ledger);
    }
}

void
vg_perf_watch_begin_anew(vg_perf_watch *watch)
{
    GHashTableIter iter;
    void *value;

    g_array_set_size(watch->sleepers, 0);
    g_hash_table_iter_init(&iter, watch->vcpus);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        ((struct vcpu *)value)->settled = false;
        note_state(watch, value);
    }
}

/* ---- whom to watch ---- */

static void
declare_thread(vg_topology *topology, struct vm *vm, int32_t tid, bool is_vcpu, int32_t index)
{
    const struct vg_declared_thread declared = {
        .tid = tid,
        .pid = vm->pid,
        .name = vm->name,
        .uuid = vm->uuid,
        .is_vcpu = is_vcpu,
        .vcpu_index = index,
    };

    vm->process_id = vg_topology_declare(topology, &declared)->id;
}

/* Declares the VM's other threads, so that they are known before they run for the first time. For
 * threads created later, the records of switches from them show their process. */
static void
declare_threads(const vg_perf_watch *watch, vg_topology *topology, struct vm *vm)
{
    g_autofree char *path = g_strdup_printf("%s/%d/task", watch->proc, vm->pid);
    DIR *dir = opendir(path);

    for (struct dirent *entry = dir ? readdir(dir) : NULL; entry; entry = readdir(dir)) {
        gint64 tid;
        if (g_ascii_string_to_signed(entry->d_name, 10, 1, VG_TID_LIMIT, &tid, NULL))
            declare_thread(topology, vm, (int32_t)tid, false, VG_NONE);
    }
    if (dir)
        closedir(dir);
}

static struct vm *
see_vm(vg_perf_watch *watch, vg_topology *topology, const struct vg_proc_vm *seen)
{
    void *key = GUINT_TO_POINTER(seen->id);
    struct vm *vm = g_hash_table_lookup(watch->vms, key);
    bool is_new = !vm;

    if (is_new) {
        vm = g_new0(struct vm, 1);
        vm->id = seen->id;
        vm->process_id = VG_PROCESS_NO_ID;
        vm->pid = seen->pid;
        g_hash_table_insert(watch->vms, key, vm);
    }
    g_strlcpy(vm->name, seen->name, sizeof(vm->name));
    g_strlcpy(vm->uuid, seen->uuid, sizeof(vm->uuid));
    vm->generation = watch->generation;
    if (is_new)
        declare_threads(watch, topology, vm);
    vg_proc_vm_adopt_helpers(seen, topology);
    return vm;
}

/* Adds a vCPU. Returns whether it is new. */
static bool
see_vcpu(vg_perf_watch *watch, vg_topology *topology, struct vm *vm,
         const struct vg_proc_vcpu *seen)
{
    void *key = GINT_TO_POINTER(seen->tid);
    struct vcpu *vcpu = g_hash_table_lookup(watch->vcpus, key);

    if (vcpu && vcpu->pid == vm->pid) {
        vcpu->generation = watch->generation;
        return false;
    }
    vcpu = g_new0(struct vcpu, 1);
    vcpu->tid = seen->tid;
    vcpu->pid = vm->pid;
    vcpu->is_kvm = seen->is_kvm;
    vcpu->generation = watch->generation;
    g_hash_table_replace(watch->vcpus, key, vcpu);
    declare_thread(topology, vm, seen->tid, true, seen->index);
    note_state(watch, vcpu);
    return true;
}

void
vg_perf_watch_see(vg_perf_watch *watch, vg_topology *topology, const GPtrArray *vms,
                  vg_thread *self)
{
    unsigned fresh = 0;

    watch->generation++;
    for (unsigned i = 0; i < vms->len; i++) {
        const struct vg_proc_vm *seen = vms->pdata[i];
        struct vm *vm = see_vm(watch, topology, seen);
        for (unsigned k = 0; k < seen->vcpus->len; k++) {
            fresh +=
                see_vcpu(watch, topology, vm, &g_array_index(seen->vcpus, struct vg_proc_vcpu, k));
            if (fresh % VCPUS_PER_BEAT == VCPUS_PER_BEAT - 1)
                vg_thread_beat(self);
        }
    }
}

void
vg_perf_watch_forget_gone(vg_perf_watch *watch, void (*ended)(void *data, int32_t pid), void *data)
{
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, watch->vcpus);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        if (((struct vcpu *)value)->generation != watch->generation)
            g_hash_table_iter_remove(&iter);
    }
    g_hash_table_iter_init(&iter, watch->vms);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct vm *vm = value;
        if (vm->generation == watch->generation)
            continue;
        ended(data, vm->pid);
        g_hash_table_iter_remove(&iter);
    }
}

/* ---- windows ---- */

/* Lists the VMs by their number in the topology. Numbers are reused, so the VM that was seen last
 * has the number. */
static GHashTable *
list_processes(const vg_perf_watch *watch)
{
    GHashTable *ret = g_hash_table_new(NULL, NULL);
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, watch->vms);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct vm *vm = value;
        void *key = GUINT_TO_POINTER(vm->process_id);
        const struct vm *other = g_hash_table_lookup(ret, key);
        if (vm->process_id != VG_PROCESS_NO_ID && (!other || other->id < vm->id))
            g_hash_table_insert(ret, key, vm);
    }
    return ret;
}

static void
complete_guest(const vg_perf_watch *watch, struct vm *vm, struct vg_vm_sample *sample,
               struct vg_guest_silence *silence, bool listening)
{
    sample->cpu.guest_ns = 0;
    for (unsigned i = 0; i < sample->vcpus->len; i++) {
        struct vg_vcpu_sample *of = &g_array_index(sample->vcpus, struct vg_vcpu_sample, i);
        struct vcpu *vcpu = g_hash_table_lookup(watch->vcpus, GINT_TO_POINTER(of->tid));
        const struct vg_guest_thread thread = {watch->proc, vm->pid, of->tid, watch->tick_ns};
        if (vcpu)
            vm->guest_known = vg_guest_silence_complete(
                silence, &vcpu->guest, vcpu->is_kvm, listening, vm->guest_known, &of->cpu, &thread);
        sample->cpu.guest_ns += of->cpu.guest_ns;
    }
    sample->guest_known = vm->guest_known;
}

void
vg_perf_watch_finish(vg_perf_watch *watch, struct vg_window *window,
                     struct vg_guest_silence *silence, bool listening)
{
    g_autoptr(GHashTable) processes = list_processes(watch);

    vg_guest_silence_begin(silence);
    for (unsigned i = 0; i < window->vms->len; i++) {
        struct vg_vm_sample *sample = &g_array_index(window->vms, struct vg_vm_sample, i);
        struct vm *vm = g_hash_table_lookup(processes, GUINT_TO_POINTER(sample->id));
        if (!vm)
            continue;
        sample->id = vm->id;
        g_strlcpy(sample->name, vm->name, sizeof(sample->name));
        g_strlcpy(sample->uuid, vm->uuid, sizeof(sample->uuid));
        complete_guest(watch, vm, sample, silence, listening);
        for (unsigned k = 0; k < sample->lost_to->len; k++) {
            struct vg_lost_to *lost = &g_array_index(sample->lost_to, struct vg_lost_to, k);
            const struct vm *by = g_hash_table_lookup(processes, GUINT_TO_POINTER(lost->vm_id));
            if (lost->kind == VG_AGGRESSOR_VM && by)
                lost->vm_id = by->id;
        }
    }
    vg_guest_silence_end(silence, listening);
    vg_window_sort_vms(window);
}
