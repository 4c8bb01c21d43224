/* SPDX-License-Identifier: Apache-2.0
 *
 * Tracks of vCPUs and CPUs. To create a vCPU's track, the thread must be known as a vCPU, and its
 * process must be known. Until then, a limited number of its steps is stored. CPU slices are
 * written when they are over, which is when most is known about the thread.
 */
#include "config.h"

#include <string.h>

#include "picture/viewer-private.h"

enum taker {
    TAKER_UNKNOWN,
    TAKER_IDLE,
    TAKER_PROCESS, /* has an id, and may be a VM */
    TAKER_KERNEL,
    TAKER_USER
};

/* A change, without pointers to threads. */
struct step {
    int64_t t_ns;
    int32_t cpu;
    int32_t taker_tid;
    uint8_t doing; /* enum vg_cpu_doing */
    uint8_t taker; /* enum taker */
    char taker_comm[VG_COMM_LEN];
    struct vg_process *taker_process;
};

struct viewer_thread {
    const struct vg_thread *thread; /* NULL: this slot is free */
    struct step now;
    int64_t run_ns;           /* start on its CPU */
    struct viewer_user *user; /* of a vCPU, if known */
    uint64_t track;
    struct step shown; /* the present state of its track */
    GArray *early;     /* struct step: what it did before it had a track */
    bool given_up;     /* there were too many */
    bool waits;        /* counted as waiting */
};

struct viewer_cpu {
    uint64_t track;
    const struct vg_thread *thread; /* thread on the CPU, or NULL */
};

void
viewer_init_cpus(struct vg_viewer *viewer)
{
    viewer->threads = g_array_new(FALSE, TRUE, sizeof(struct viewer_thread));
    viewer->cpus = g_array_new(FALSE, TRUE, sizeof(struct viewer_cpu));
}

static void
drop_early(struct vg_viewer *viewer, struct viewer_thread *of)
{
    if (of->early)
        viewer->early -= of->early->len;
    g_clear_pointer(&of->early, g_array_unref);
}

void
viewer_clear_cpus(struct vg_viewer *viewer)
{
    for (guint i = 0; i < viewer->threads->len; i++)
        drop_early(viewer, &g_array_index(viewer->threads, struct viewer_thread, i));
    g_array_unref(viewer->threads);
    g_array_unref(viewer->cpus);
}

static bool
is_running(enum vg_cpu_doing doing)
{
    return doing == VG_CPU_RUNS || doing == VG_CPU_RUNS_GUEST;
}

static bool
viewer_cpu_is_waiting(enum vg_cpu_doing doing)
{
    return doing == VG_CPU_WAITS_PREEMPTED || doing == VG_CPU_WAITS_WOKEN;
}

/* ---- CPUs ---- */

static struct viewer_cpu *
need_cpu(struct vg_viewer *viewer, int32_t cpu)
{
    if (viewer->cpus->len <= (guint)cpu)
        g_array_set_size(viewer->cpus, (guint)cpu + 1);
    return &g_array_index(viewer->cpus, struct viewer_cpu, cpu);
}

/* Writes that a thread was on its CPU until this time. */
static void
put_stay(struct vg_viewer *viewer, const struct viewer_thread *of, int64_t end_ns)
{
    struct viewer_cpu *cpu = need_cpu(viewer, of->now.cpu);
    struct vg_process *process = vg_thread_process(of->thread);
    char name[VG_VM_NAME_MAX];

    if (cpu->thread == of->thread)
        cpu->thread = NULL;
    if (end_ns <= of->run_ns)
        return;
    if (cpu->track == 0) {
        if (viewer->cpus_track == 0)
            viewer->cpus_track = vg_perfetto_track(viewer->trace, 0, "CPUs");
        g_snprintf(name, sizeof(name), "CPU %d", of->now.cpu);
        cpu->track = vg_perfetto_track(viewer->trace, viewer->cpus_track, name);
    }
    if (process->is_vm)
        vg_process_vm_name(process, name);
    else if (of->thread->comm[0])
        g_strlcpy(name, of->thread->comm, sizeof(name));
    else
        g_snprintf(name, sizeof(name), "thread %d", of->thread->tid);
    vg_perfetto_slice_begin(viewer->trace, cpu->track, of->run_ns, name,
                            process->is_vm ? "vm" : "host");
    vg_perfetto_add_int(viewer->trace, "tid", of->thread->tid);
    vg_perfetto_add_text(viewer->trace, "thread", of->thread->comm);
    vg_perfetto_slice_end(viewer->trace, cpu->track, end_ns);
}

static void
follow_cpu(struct vg_viewer *viewer, struct viewer_thread *of, const struct step *next)
{
    bool stays = is_running(of->now.doing) && is_running(next->doing) && of->now.cpu == next->cpu;

    if (stays)
        return;
    if (is_running(of->now.doing))
        put_stay(viewer, of, next->t_ns);
    if (is_running(next->doing)) {
        of->run_ns = next->t_ns;
        need_cpu(viewer, next->cpu)->thread = of->thread;
    }
}

/* ---- vCPUs ---- */

static struct vg_process *
taker_process(const struct step *step)
{
    return step->taker == TAKER_PROCESS ? vg_process_resolve(step->taker_process) : NULL;
}

static bool
is_own(const struct viewer_thread *of, const struct vg_process *process)
{
    return process && process == vg_process_resolve(of->user->process);
}

/* Describes what has the CPU during a wait, with the terms of lost_to. */
static void
describe_wait(const struct vg_viewer *viewer, const struct viewer_thread *of,
              const struct step *step)
{
    const struct vg_process *process = taker_process(step);
    char name[VG_VM_NAME_MAX];
    const char *by = "host:user";

    if (step->cpu != VG_NONE)
        vg_perfetto_add_int(viewer->trace, "cpu", step->cpu);
    if (step->taker == TAKER_UNKNOWN)
        return;
    if (is_own(of, process))
        by = "self";
    else if (process && process->is_vm)
        by = vg_process_vm_name(process, name);
    else if (step->taker == TAKER_IDLE)
        by = "host:idle";
    else if (step->taker == TAKER_KERNEL)
        by = "host:kernel";
    vg_perfetto_add_text(viewer->trace, "by", by);
    if (step->taker == TAKER_IDLE)
        return;
    vg_perfetto_add_text(viewer->trace, "thread", step->taker_comm);
    vg_perfetto_add_int(viewer->trace, "tid", step->taker_tid);
}

static void
begin_preempted(const struct vg_viewer *viewer, const struct viewer_thread *of,
                const struct step *step)
{
    const struct vg_process *process = taker_process(step);
    char name[VG_VM_NAME_MAX] = "";
    g_autofree char *text = NULL;

    if (process && process->is_vm && !is_own(of, process))
        vg_process_vm_name(process, name);
    else if (step->taker == TAKER_IDLE)
        g_strlcpy(name, "nobody", sizeof(name));
    else if (step->taker != TAKER_UNKNOWN)
        g_strlcpy(name, step->taker_comm[0] ? step->taker_comm : "a thread", sizeof(name));
    text = name[0] ? g_strdup_printf("preempted by %s", name) : g_strdup("preempted");
    vg_perfetto_slice_begin(viewer->trace, of->track, step->t_ns, text, "preempted");
    describe_wait(viewer, of, step);
}

/* A wait is written when it ends, because more is then known about what had the CPU. */
static void
put_wait(const struct vg_viewer *viewer, const struct viewer_thread *of, int64_t end_ns)
{
    const struct step *step = &of->shown;

    if (step->doing == VG_CPU_WAITS_PREEMPTED) {
        begin_preempted(viewer, of, step);
    } else {
        vg_perfetto_slice_begin(viewer->trace, of->track, step->t_ns, "waits after wakeup",
                                "woken");
        describe_wait(viewer, of, step);
    }
    vg_perfetto_slice_end(viewer->trace, of->track, end_ns);
}

static void
need_track(struct vg_viewer *viewer, struct viewer_thread *of)
{
    const struct vg_thread *thread = of->thread;
    char name[VG_COMM_LEN + 16];

    if (of->track != 0)
        return;
    if (thread->vcpu_index != VG_NONE)
        g_snprintf(name, sizeof(name), "vCPU %d", thread->vcpu_index);
    else
        g_snprintf(name, sizeof(name), "vCPU (%s)", thread->comm);
    of->track = vg_perfetto_track_thread(viewer->trace, of->user->track, name,
                                         of->user->process->pid, thread->tid);
}

/* Writes the next step on the track of a vCPU. */
static void
show(struct vg_viewer *viewer, struct viewer_thread *of, const struct step *step)
{
    vg_perfetto *trace = viewer->trace;
    bool runs = is_running(step->doing), ran = is_running(of->shown.doing);
    bool stays = runs && ran && of->shown.cpu == step->cpu;

    need_track(viewer, of);
    if (viewer_cpu_is_waiting(of->shown.doing))
        put_wait(viewer, of, step->t_ns);
    if (of->shown.doing == VG_CPU_RUNS_GUEST)
        vg_perfetto_slice_end(trace, of->track, step->t_ns);
    if (ran && !stays)
        vg_perfetto_slice_end(trace, of->track, step->t_ns);
    if (runs && !stays) {
        char name[32];
        g_snprintf(name, sizeof(name), "on CPU %d", step->cpu);
        vg_perfetto_slice_begin(trace, of->track, step->t_ns, name, "run");
    }
    if (step->doing == VG_CPU_RUNS_GUEST)
        vg_perfetto_slice_begin(trace, of->track, step->t_ns, "guest", "guest");
    of->shown = *step;
}

/* Counts how many vCPUs of the VM wait from now on. */
static void
count_waits(struct vg_viewer *viewer, struct viewer_thread *of, int64_t t_ns)
{
    struct viewer_counter *waits = &of->user->waits;
    bool now = viewer_cpu_is_waiting(of->now.doing);

    if (now == of->waits)
        return;
    of->waits = now;
    if (waits->track == 0)
        waits->track = vg_perfetto_track_counter(viewer->trace, of->user->track,
                                                 "vCPUs that wait for a CPU", NULL);
    viewer_counter_set(viewer, waits, t_ns, waits->value + (now ? 1 : -1));
}

static void
show_from_now_on(struct vg_viewer *viewer, struct viewer_thread *of)
{
    of->user = viewer_user(viewer, vg_thread_process(of->thread), of->thread->comm);
    viewer->missing += of->given_up;
    for (guint i = 0; of->early && i < of->early->len; i++)
        show(viewer, of, &g_array_index(of->early, struct step, i));
    drop_early(viewer, of);
}

static void
keep(struct vg_viewer *viewer, struct viewer_thread *of, const struct step *step)
{
    if (!of->early)
        of->early = g_array_new(FALSE, FALSE, sizeof(struct step));
    g_array_append_val(of->early, *step);
    viewer->early++;
    if (of->early->len < VG_VIEWER_EARLY_MAX && viewer->early < VG_VIEWER_ALL_EARLY_MAX)
        return;
    /* If records contain no process ids, each thread remains alone. */
    if (of->thread->is_vcpu) {
        show_from_now_on(viewer, of);
    } else {
        of->given_up = true;
        drop_early(viewer, of);
    }
}

static void
follow_vcpu(struct vg_viewer *viewer, struct viewer_thread *of, const struct step *step)
{
    const struct vg_thread *thread = of->thread;
    bool known = thread->is_vcpu && (vg_thread_process(thread)->pid_known || of->given_up);

    if (!of->user && !known) {
        if (!of->given_up && thread->kind != VG_THREAD_KERNEL)
            keep(viewer, of, step);
        return;
    }
    if (!of->user)
        show_from_now_on(viewer, of);
    show(viewer, of, step);
    count_waits(viewer, of, step->t_ns);
}

/* ---- what the ledger tells ---- */

static void
set_taker(struct step *step, const struct vg_thread *thread)
{
    struct vg_process *process = vg_thread_process(thread);

    step->taker = thread->kind == VG_THREAD_KERNEL ? TAKER_KERNEL : TAKER_USER;
    step->taker_tid = thread->tid;
    memcpy(step->taker_comm, thread->comm, sizeof(step->taker_comm));
    /* A process without an id is temporary and not a VM. */
    if (process->id != VG_PROCESS_NO_ID) {
        step->taker = TAKER_PROCESS;
        step->taker_process = process;
    }
}

static struct step
step_of(struct vg_viewer *viewer, const struct vg_cpu_change *change)
{
    struct step step = {
        .t_ns = change->t_ns,
        .cpu = change->cpu,
        .doing = (uint8_t)change->doing,
        .taker = change->taken ? TAKER_IDLE : TAKER_UNKNOWN,
    };
    const struct vg_thread *taker = change->taker;

    if (viewer_cpu_is_waiting(change->doing) && !change->taken && change->cpu != VG_NONE)
        taker = need_cpu(viewer, change->cpu)->thread;
    if (taker)
        set_taker(&step, taker);
    return step;
}

void
vg_viewer_cpu(vg_viewer *viewer, const struct vg_cpu_change *change)
{
    if (viewer->threads->len <= change->thread->slot)
        g_array_set_size(viewer->threads, change->thread->slot + 1);
    struct viewer_thread *of =
        &g_array_index(viewer->threads, struct viewer_thread, change->thread->slot);

    if (of->thread != change->thread) {
        drop_early(viewer, of);
        *of = (struct viewer_thread){.thread = change->thread, .now.cpu = VG_NONE};
    }
    bool same_cpu = of->now.cpu == change->cpu || change->doing == VG_CPU_NOTHING;
    if (of->now.doing == change->doing && same_cpu)
        return;
    const struct step step = step_of(viewer, change);
    follow_cpu(viewer, of, &step);
    of->now = step;
    follow_vcpu(viewer, of, &step);
    if (change->doing != VG_CPU_GONE)
        return;
    if (!of->user && change->thread->is_vcpu)
        show_from_now_on(viewer, of);
    drop_early(viewer, of);
    of->thread = NULL;
}

void
viewer_finish_cpus(struct vg_viewer *viewer, int64_t end_ns)
{
    for (guint i = 0; i < viewer->threads->len; i++) {
        struct viewer_thread *of = &g_array_index(viewer->threads, struct viewer_thread, i);
        if (!of->thread)
            continue;
        if (is_running(of->now.doing))
            put_stay(viewer, of, end_ns);
        if (!of->user && of->thread->is_vcpu)
            show_from_now_on(viewer, of);
        if (of->user && viewer_cpu_is_waiting(of->shown.doing))
            put_wait(viewer, of, end_ns);
    }
}
