/* SPDX-License-Identifier: Apache-2.0
 *
 * The best rung of the ladder. BPF programs account every switch of the watched threads where it
 * happens (vcpu.bpf.c), and this file reads their counts. Reading needs almost no system calls,
 * whatever happens on the host.
 */
#include "config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "collectors/bpf-load.h"
#include "collectors/bpf-losses.h"
#include "collectors/bpf-places.h"
#include "collectors/bpf-record.h"
#include "collectors/bpf-slots.h"
#include "collectors/cpu-source.h"
#include "collectors/guest-silence.h"
#include "collectors/process-names.h"
#include "host/proc-scan.h"
#include "host/proc-text.h"

#define NAME "bpf"

/* The confidence if there was no space in the kernel for some aggressors. */
#define CROWDED_CONFIDENCE 0.8
/* A runnable thread that has not run for this long has been waiting since its watch started. */
#define SETTLED_NS (VG_NS_PER_S / 2)
/* The number of new watches between two heartbeats: some 30 us each. */
#define WATCHES_PER_BEAT 128

enum { LEVEL_ALL, LEVEL_NO_GUESTS, LEVELS };

/* A watched thread: a vCPU, or the main thread of a VM process, which is not measured. */
struct watch {
    uint32_t slot;
    int32_t tid;
    int32_t index;
    uint32_t vm_id;
    bool is_vcpu;
    bool is_kvm;
    bool settled;      /* the assumed state is final */
    bool over;         /* the thread has ended and was read to its end */
    int64_t waited_ns; /* time of the last reading if the thread waited then; else 0 */
    uint64_t start_ticks;
    uint64_t timeslices; /* from schedstat, when the watch started */
    uint64_t run_ns;
    int64_t begin_ns;
    struct vg_bpf_assumed assumed;
    struct vg_cpu_figures last;
    unsigned open; /* intervals that the end of the last window split */
    vg_bpf_given *given;
    struct vg_bpf_places places;
    struct vg_guest_ticks guest;
    uint64_t generation;
};

/* A VM that has been seen in this window or the one before. */
struct vm {
    uint32_t id;
    int32_t pid;
    char name[VG_VM_NAME_MAX];
    char uuid[VG_UUID_LEN];
    bool guest_known;
    uint64_t generation;
};

struct source {
    struct vg_cpu_source base; /* first */
    char *proc;
    int64_t tick_ns;
    unsigned level;
    vg_bpf *bpf; /* NULL: closed */
    vg_bpf_slots *slots;
    vg_bpf_cells *cells;
    vg_process_names *names;
    GHashTable *watches; /* tid -> struct watch */
    GHashTable *vms;     /* id -> struct vm */
    uint64_t generation;
    unsigned unwatched;            /* threads without a slot */
    struct vg_bpf_totals reported; /* as of the last window */
    struct vg_guest_silence silence;
};

static const struct vg_bpf_cpu *
cpu_of(const void *data, int32_t cpu)
{
    const struct vg_bpf_memory *memory = data;

    if (cpu < 0 || (unsigned)cpu >= memory->n_cpus)
        return NULL;
    return (const void *)((const char *)memory->cpus + (size_t)cpu * memory->cpu_stride);
}

static const struct vg_bpf_thread *
record_of(const struct source *s, const struct watch *w)
{
    return &vg_bpf_memory(s->bpf)->threads[w->slot];
}

/* ---- whom to watch ---- */

/* Reads the state of a thread without events since its watch started from /proc. A sleeping thread
 * sleeps until an event. After a while, the counters of a runnable thread show whether it has been
 * running or waiting all the time. */
static void
assume(const struct source *s, int32_t pid, struct watch *w)
{
    struct vg_proc_stat stat;
    struct vg_proc_schedstat sched;
    enum vg_bpf_state state = VG_BPF_UNSEEN;

    if (!vg_proc_read_thread(s->proc, pid, w->tid, &stat, &sched))
        return;
    if (record_of(s, w)->state != VG_BPF_UNSEEN) {
        w->settled = true;
        return;
    }
    if (sched.timeslices != w->timeslices) {
        /* An event came just before the watch, or is about to come, so the present state counts. */
        w->timeslices = sched.timeslices;
        w->run_ns = sched.run_ns;
        w->begin_ns = vg_clock_monotonic_ns();
        return;
    }
    if (stat.state == 'Z' || stat.state == 'X')
        state = VG_BPF_EXITED;
    else if (stat.state != 'R')
        state = VG_BPF_BLOCKED;
    else if (sched.run_ns > w->run_ns)
        state = VG_BPF_RUNNING;
    else if (vg_clock_monotonic_ns() - w->begin_ns > SETTLED_NS)
        state = VG_BPF_WAIT_PREEMPT;
    w->assumed.state = state;
    w->settled = state != VG_BPF_UNSEEN;
}

static void
watch_free(void *data)
{
    struct watch *w = data;

    vg_bpf_given_free(w->given);
    g_free(w);
}

static void
begin_watch(struct source *s, const struct vm *vm, const struct vg_proc_vcpu *vcpu, bool is_vcpu)
{
    struct vg_proc_stat stat = {0};
    struct vg_proc_schedstat sched = {0};

    /* Read the counters before the watch starts: events in between make the state uncertain. */
    bool known =
        vg_proc_read_thread(s->proc, is_vcpu ? vm->pid : vcpu->tid, vcpu->tid, &stat, &sched);
    int64_t begin_ns = vg_clock_monotonic_ns();
    uint32_t slot = vg_bpf_slots_publish(s->slots, vcpu->tid, vm->id, is_vcpu);
    if (slot == 0) {
        s->unwatched++;
        return;
    }
    struct watch *w = g_new0(struct watch, 1);
    w->slot = slot;
    w->tid = vcpu->tid;
    w->index = vcpu->index;
    w->vm_id = vm->id;
    w->is_vcpu = is_vcpu;
    w->is_kvm = vcpu->is_kvm;
    w->given = vg_bpf_given_new();
    w->generation = s->generation;
    w->begin_ns = begin_ns;
    w->assumed.since_ns = known ? begin_ns : 0;
    w->start_ticks = stat.start_ticks;
    w->timeslices = sched.timeslices;
    w->run_ns = w->assumed.exec_ns = sched.run_ns;
    w->settled = !known || !is_vcpu;
    g_hash_table_insert(s->watches, GINT_TO_POINTER(w->tid), w);
    if (!w->settled)
        assume(s, vm->pid, w);
}

static struct vm *
bpf_find_vm(struct source *s, const struct vg_proc_vm *seen)
{
    void *key = GUINT_TO_POINTER(seen->id);
    struct vm *vm = g_hash_table_lookup(s->vms, key);

    if (!vm) {
        vm = g_new0(struct vm, 1);
        vm->id = seen->id;
        g_hash_table_insert(s->vms, key, vm);
    }
    vm->pid = seen->pid;
    g_strlcpy(vm->name, seen->name, sizeof(vm->name));
    g_strlcpy(vm->uuid, seen->uuid, sizeof(vm->uuid));
    vm->generation = s->generation;
    return vm;
}

static void
see_thread(struct source *s, const struct vm *vm, const struct vg_proc_vcpu *vcpu, bool is_vcpu)
{
    struct watch *w = g_hash_table_lookup(s->watches, GINT_TO_POINTER(vcpu->tid));

    if (!w) {
        begin_watch(s, vm, vcpu, is_vcpu);
    } else if (w->vm_id == vm->id && w->is_vcpu == is_vcpu) {
        w->generation = s->generation;
        w->index = vcpu->index;
        w->is_kvm = vcpu->is_kvm;
    }
    /* Otherwise the tid was reused, or the assumed main thread is a vCPU. The old thread is read a
     * last time and forgotten, and the next check adds the new one. */
}

static void
see_vms(struct source *s, const GPtrArray *vms, vg_thread *self)
{
    unsigned seen_threads = 0;

    s->generation++;
    s->unwatched = 0;
    for (unsigned i = 0; i < vms->len; i++) {
        const struct vg_proc_vm *seen = vms->pdata[i];
        const struct vm *vm = bpf_find_vm(s, seen);
        bool main_is_vcpu = false;
        for (unsigned k = 0; k < seen->vcpus->len; k++) {
            const struct vg_proc_vcpu *vcpu = &g_array_index(seen->vcpus, struct vg_proc_vcpu, k);
            main_is_vcpu |= vcpu->tid == seen->pid;
            see_thread(s, vm, vcpu, true);
            if (++seen_threads % WATCHES_PER_BEAT == 0)
                vg_thread_beat(self);
        }
        struct vg_proc_vcpu main_thread = {.index = VG_NONE};
        for (unsigned k = main_is_vcpu; (main_thread.tid = vg_proc_vm_pid_at(seen, k)) > 0; k++)
            see_thread(s, vm, &main_thread, false);
    }
}

/* Returns whether another thread has the tid, because the watched thread has ended. */
static bool
is_another(const struct source *s, const struct watch *w)
{
    uint64_t start_ns = record_of(s, w)->start_ns;

    return start_ns != 0 && start_ns / (uint64_t)s->tick_ns != w->start_ticks;
}

static void
delete_cells(void *data, uint32_t slot)
{
    vg_bpf_cells_delete(data, slot);
}

/* Forgets threads that have ended or need not be measured any more. */
static void
bpf_forget_gone(struct source *s)
{
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, s->watches);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        const struct watch *w = value;
        /* An ended thread's tid may belong to another thread, which the next check watches. */
        if (w->generation == s->generation && !w->over && !is_another(s, w))
            continue;
        vg_bpf_slots_withdraw(s->slots, w->slot);
        g_hash_table_iter_remove(&iter);
    }
    g_hash_table_iter_init(&iter, s->vms);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        if (((struct vm *)value)->generation != s->generation)
            g_hash_table_iter_remove(&iter);
    }
    vg_bpf_slots_settle(s->slots, delete_cells, s->cells);
}

/* ---- windows ---- */

struct victim {
    const struct source *source;
    struct vg_vm_sample *sample;
};

static enum vg_aggressor_kind
kind_of(const struct victim *v, uint32_t holder)
{
    switch (holder) {
    case VG_BPF_HOLDER_KERNEL:
        return VG_AGGRESSOR_HOST_KERNEL;
    case VG_BPF_HOLDER_USER:
        return VG_AGGRESSOR_HOST_USER;
    case VG_BPF_HOLDER_IDLE:
        return VG_AGGRESSOR_HOST_IDLE;
    }
    uint32_t vm_id = holder & VG_BPF_VM_MASK;
    if (holder & VG_BPF_HOLDER_SPECIAL)
        return VG_AGGRESSOR_HOST_UNKNOWN;
    if (vm_id == v->sample->id)
        return VG_AGGRESSOR_SELF;
    return g_hash_table_contains(v->source->vms, GUINT_TO_POINTER(vm_id))
               ? VG_AGGRESSOR_VM
               : VG_AGGRESSOR_HOST_UNKNOWN;
}

static void
tell_loss(void *data, uint32_t holder, int64_t ns, uint64_t count)
{
    const struct victim *v = data;
    GArray *lost_to = v->sample->lost_to;
    enum vg_aggressor_kind kind = kind_of(v, holder);
    uint32_t vm_id = kind == VG_AGGRESSOR_VM ? holder & VG_BPF_VM_MASK : 0;
    struct vg_lost_to *lost = NULL;

    for (unsigned i = 0; i < lost_to->len && !lost; i++) {
        struct vg_lost_to *known = &g_array_index(lost_to, struct vg_lost_to, i);
        if (known->kind == kind && known->vm_id == vm_id)
            lost = known;
    }
    if (!lost) {
        struct vg_lost_to fresh = {.kind = kind, .vm_id = vm_id};
        g_array_append_val(lost_to, fresh);
        lost = &g_array_index(lost_to, struct vg_lost_to, lost_to->len - 1);
    }
    lost->ns += ns;
    lost->count += count;
    if (kind == VG_AGGRESSOR_VM || kind == VG_AGGRESSOR_SELF)
        *(holder & VG_BPF_VCPU ? &lost->vcpu_ns : &lost->emulator_ns) += ns;
}

static void
tell_process(void *data, int32_t pid, int64_t ns, uint64_t count)
{
    GArray *processes = ((const struct victim *)data)->sample->lost_processes;
    struct vg_lost_process *process = NULL;

    for (unsigned i = 0; i < processes->len && !process; i++) {
        struct vg_lost_process *known = &g_array_index(processes, struct vg_lost_process, i);
        if (known->pid == pid)
            process = known;
    }
    if (!process) {
        struct vg_lost_process fresh = {.pid = pid, .pids = 1};
        g_array_append_val(processes, fresh);
        process = &g_array_index(processes, struct vg_lost_process, processes->len - 1);
    }
    process->ns += ns;
    process->count += count;
}

/* Reads the record of a thread. */
static bool
read_record(const struct source *s, const struct vm *vm, struct watch *w,
            struct vg_bpf_reading *ret)
{
    struct vg_proc_stat stat;
    struct vg_proc_schedstat sched;

    if (!w->settled)
        assume(s, vm->pid, w);
    /* Only the kernel knows whether a wait from the last window is really a wait. */
    bool same_wait =
        (int64_t)__atomic_load_n(&record_of(s, w)->since_ns, __ATOMIC_RELAXED) < w->waited_ns;
    w->assumed.exec_now_ns = 0;
    if (same_wait && vg_proc_read_thread(s->proc, vm->pid, w->tid, &stat, &sched))
        w->assumed.exec_now_ns = sched.run_ns;
    if (is_another(s, w) || !vg_bpf_record_read(record_of(s, w), cpu_of, vg_bpf_memory(s->bpf),
                                                &w->assumed, vg_clock_monotonic_ns, ret))
        return false;
    w->waited_ns = ret->seen && vg_bpf_is_wait(ret->state) ? ret->at_ns : 0;
    if (ret->seen)
        return true;
    if (w->assumed.state != VG_BPF_UNSEEN) {
        w->assumed.told_ns = ret->at_ns;
    } else if (w->assumed.since_ns != 0) {
        /* This window has no figures, so the next one must report only its own time. */
        w->assumed.since_ns = ret->at_ns;
        w->assumed.exec_ns = w->run_ns;
    }
    return true;
}

static int64_t
waits(const struct vg_cpu_figures *cpu)
{
    return cpu->preempt_ns + cpu->wake_wait_ns;
}

static void
read_watch(struct source *s, struct watch *w, struct vg_window *window)
{
    struct vm *vm = g_hash_table_lookup(s->vms, GUINT_TO_POINTER(w->vm_id));
    struct vg_vm_sample *sample = vg_window_find_vm(window, w->vm_id);
    struct victim victim = {.source = s, .sample = sample};
    struct vg_bpf_reading reading;

    if (!read_record(s, vm, w, &reading))
        return;
    struct vg_vcpu_sample vcpu = {
        .tid = w->tid, .index = w->index, .cpu = vg_bpf_reading_since(&reading, &w->last)};
    vcpu.cpu.clipped = w->open + reading.open;
    bool taken_back = waits(&reading.cpu) < waits(&w->last);
    w->last = reading.cpu;
    w->open = reading.open;
    w->over = reading.state == VG_BPF_EXITED && w->assumed.state != VG_BPF_EXITED;
    vm->guest_known = vg_guest_silence_complete(
        &s->silence, &w->guest, w->is_kvm, vg_bpf_sees_guests(s->bpf), vm->guest_known, &vcpu.cpu,
        &(struct vg_guest_thread){s->proc, vm->pid, w->tid, s->tick_ns});
    if (vcpu.cpu.observed_ns > 0) {
        vg_cpu_figures_add(&sample->cpu, &vcpu.cpu);
        g_array_append_val(sample->vcpus, vcpu);
        vg_bpf_given_take(w->given, &reading, w->slot, s->cells, waits(&vcpu.cpu),
                          &(struct vg_bpf_losses_sink){&victim, tell_loss, tell_process});
        vg_bpf_places_take(&w->places, &reading, vcpu.cpu.run_ns, waits(&vcpu.cpu), sample->places);
    }
    if (taken_back)
        vg_bpf_given_forgive(w->given);
}

static void
begin_samples(const struct source *s, struct vg_window *window)
{
    GHashTableIter iter;
    void *value;

    g_hash_table_iter_init(&iter, s->vms);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct vm *vm = value;
        struct vg_vm_sample sample;
        /* If entries are not visible, the kernel's samples of each vCPU count in each window. */
        vm->guest_known &= vg_bpf_sees_guests(s->bpf) && !s->silence.silent;
        vg_vm_sample_init(&sample);
        sample.id = vm->id;
        sample.pid = vm->pid;
        g_strlcpy(sample.name, vm->name, sizeof(sample.name));
        g_strlcpy(sample.uuid, vm->uuid, sizeof(sample.uuid));
        g_array_append_val(window->vms, sample);
    }
}

/* Names the processes that took most of a VM's time. The others remain unnamed. */
static void
name_processes(struct source *s, GArray *processes)
{
    vg_window_sort_lost_processes(processes);
    if (processes->len > VG_WINDOW_LOST_PROCESSES_MAX)
        g_array_set_size(processes, VG_WINDOW_LOST_PROCESSES_MAX);
    for (guint i = 0; i < processes->len; i++)
        vg_process_names_fill(s->names, vg_bpf_memory(s->bpf)->names,
                              &g_array_index(processes, struct vg_lost_process, i));
}

/* Finishes the samples after all threads were read. */
static void
finish_samples(struct source *s, struct vg_window *window)
{
    for (unsigned i = 0; i < window->vms->len; i++) {
        struct vg_vm_sample *sample = &g_array_index(window->vms, struct vg_vm_sample, i);
        const struct vm *vm = g_hash_table_lookup(s->vms, GUINT_TO_POINTER(sample->id));
        sample->guest_known = vm->guest_known;
        vg_window_sort_vcpus(sample->vcpus);
        vg_window_sort_lost_to(sample->lost_to);
        name_processes(s, sample->lost_processes);
        sample->places_counted = true;
    }
    vg_process_names_settle(s->names);
    vg_window_sort_vms(window);
}

static void
bpf_describe(struct source *s, struct vg_provenance *ret)
{
    const struct vg_bpf_totals *totals = vg_bpf_totals(s->bpf);

    ret->confidence = 1;
    vg_provenance_set_all(ret, NAME, 1);
    ret->cost_ns = vg_bpf_take_cost(s->bpf);
    if (totals->cells_full != s->reported.cells_full)
        ret->measures[VG_MEASURE_LOST_TO] =
            (struct vg_measured){.source = NAME,
                                 .confidence = CROWDED_CONFIDENCE,
                                 .reason = "more aggressors than the BPF map can hold"};
    if (s->unwatched > 0)
        ret->measures[VG_MEASURE_RUN].reason =
            "more threads than the BPF map can hold; the rest is not measured";
    ret->measures[VG_MEASURE_EXITS].reason = vg_bpf_exits_lack(s->bpf);
    vg_guest_silence_describe(&s->silence,
                              s->level >= LEVEL_NO_GUESTS   ? VG_GUESTS_LEFT_OUT
                              : !vg_bpf_sees_guests(s->bpf) ? VG_GUESTS_NO_KVM
                                                            : VG_GUESTS_SEEN,
                              ret);
}

static void
count_trouble(struct source *s, struct vg_window *window)
{
    const struct vg_bpf_totals *totals = vg_bpf_totals(s->bpf);

    window->lost_events += vg_bpf_take_missed(s->bpf);
    window->lost_events += totals->notes_lost - s->reported.notes_lost;
    window->discontinuities += totals->discontinuities - s->reported.discontinuities;
    s->reported = *totals;
}

/* ---- the source ---- */

static void
bpf_close_source(vg_cpu_source *source)
{
    struct source *s = (struct source *)source;

    g_hash_table_remove_all(s->watches);
    g_hash_table_remove_all(s->vms);
    g_clear_pointer(&s->cells, vg_bpf_cells_free);
    g_clear_pointer(&s->slots, vg_bpf_slots_free);
    g_clear_pointer(&s->bpf, vg_bpf_free);
}

static int
bpf_open_source(vg_cpu_source *source, GError **err)
{
    struct source *s = (struct source *)source;

    s->bpf = vg_bpf_load(s->proc, err);
    if (!s->bpf)
        return -1;
    s->slots = vg_bpf_slots_new(vg_bpf_memory(s->bpf));
    s->cells = vg_bpf_cells_new(vg_bpf_cells_fd(s->bpf));
    s->reported = (struct vg_bpf_totals){0};
    s->silence = (struct vg_guest_silence){0};
    return s->level >= LEVEL_NO_GUESTS ? vg_bpf_see_guests(s->bpf, false, err) : 0;
}

static int
bpf_watch(vg_cpu_source *source, const GPtrArray *vms, vg_thread *self, GError **err)
{
    (void)err;
    see_vms((struct source *)source, vms, self);
    return 0;
}

/* Loads the programs again if KVM was loaded after them, so that they see it. */
static int
restart(struct source *s, const GPtrArray *vms, vg_thread *self, GError **err)
{
    bpf_close_source(&s->base);
    return bpf_open_source(&s->base, err) < 0 ? -1 : bpf_watch(&s->base, vms, self, err);
}

static int
bpf_read_source(vg_cpu_source *source, const GPtrArray *vms, vg_thread *self,
                struct vg_window *window, struct vg_provenance *provenance, GError **err)
{
    struct source *s = (struct source *)source;
    GHashTableIter iter;
    void *value;
    unsigned read = 0;

    if (vg_bpf_check(s->bpf, err) < 0)
        return -1;
    see_vms(s, vms, self);
    begin_samples(s, window);
    vg_bpf_cells_update(s->cells, vg_bpf_totals(s->bpf)->evictions);
    vg_guest_silence_begin(&s->silence);
    g_hash_table_iter_init(&iter, s->watches);
    while (g_hash_table_iter_next(&iter, NULL, &value)) {
        struct watch *w = value;
        if (w->is_vcpu)
            read_watch(s, w, window);
        if (++read % WATCHES_PER_BEAT == 0)
            vg_thread_beat(self);
    }
    vg_guest_silence_end(&s->silence, vg_bpf_sees_guests(s->bpf));
    finish_samples(s, window);
    bpf_describe(s, provenance);
    count_trouble(s, window);
    bpf_forget_gone(s);
    return vg_bpf_could_see_guests(s->bpf) ? restart(s, vms, self, err) : 0;
}

static int
notes_fd(const vg_cpu_source *source)
{
    return vg_bpf_notes_fd(((const struct source *)source)->bpf);
}

static void
take_note(void *data, const struct vg_bpf_note *note)
{
    struct vg_cpu_hint hint = {.pid = note->pid, .tid = note->tid};

    g_strlcpy(hint.comm, note->comm, sizeof(hint.comm));
    g_array_append_val((GArray *)data, hint);
}

static void
hints(vg_cpu_source *source, GArray *hints)
{
    vg_bpf_take_notes(((struct source *)source)->bpf, take_note, hints);
}

static int
set_level(vg_cpu_source *source, unsigned level, GError **err)
{
    struct source *s = (struct source *)source;

    s->level = level;
    return s->bpf ? vg_bpf_see_guests(s->bpf, level < LEVEL_NO_GUESTS, err) : 0;
}

static void
bpf_free_source(vg_cpu_source *source)
{
    struct source *s = (struct source *)source;

    bpf_close_source(source);
    vg_process_names_free(s->names);
    g_hash_table_unref(s->watches);
    g_hash_table_unref(s->vms);
    g_free(s->proc);
    g_free(s);
}

static const struct vg_cpu_source_ops bpf_ops = {
    .name = NAME,
    .levels = LEVELS,
    .open = bpf_open_source,
    .close = bpf_close_source,
    .watch = bpf_watch,
    .read = bpf_read_source,
    .fd = notes_fd,
    .hints = hints,
    .set_level = set_level,
    .free = bpf_free_source,
};

vg_cpu_source *
vg_source_bpf_new(const char *proc)
{
    struct source *s = g_new0(struct source, 1);

    s->base.ops = &bpf_ops;
    s->proc = g_strdup(proc);
    s->names = vg_process_names_new(proc);
    s->tick_ns = VG_NS_PER_S / MAX(sysconf(_SC_CLK_TCK), 1);
    s->watches = g_hash_table_new_full(NULL, NULL, NULL, watch_free);
    s->vms = g_hash_table_new_full(NULL, NULL, NULL, g_free);
    return &s->base;
}
