/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/window-sum.h"

#include <string.h>

#include "model/process-sum.h"

static struct vg_vm_sample *
need_vm(struct vg_window *sum, uint32_t id)
{
    struct vg_vm_sample *vm = vg_window_find_vm(sum, id);

    if (vm)
        return vm;
    struct vg_vm_sample sample;
    vg_vm_sample_init(&sample);
    sample.id = id;
    g_array_append_val(sum->vms, sample);
    return &g_array_index(sum->vms, struct vg_vm_sample, sum->vms->len - 1);
}

static void
add_vcpu(GArray *vcpus, const struct vg_vcpu_sample *more)
{
    for (guint i = 0; i < vcpus->len; i++) {
        struct vg_vcpu_sample *vcpu = &g_array_index(vcpus, struct vg_vcpu_sample, i);
        if (vcpu->tid != more->tid)
            continue;
        vg_cpu_figures_add(&vcpu->cpu, &more->cpu);
        if (vcpu->index != more->index) {
            vcpu->index = more->index;
            vg_window_sort_vcpus(vcpus);
        }
        return;
    }
    g_array_append_vals(vcpus, more, 1);
    vg_window_sort_vcpus(vcpus);
}

static void
window_sum_add_lost(GArray *losses, const struct vg_lost_to *more)
{
    for (guint i = 0; i < losses->len; i++) {
        struct vg_lost_to *lost = &g_array_index(losses, struct vg_lost_to, i);
        if (lost->kind != more->kind ||
            (lost->kind == VG_AGGRESSOR_VM && lost->vm_id != more->vm_id))
            continue;
        lost->ns += more->ns;
        lost->vcpu_ns += more->vcpu_ns;
        lost->emulator_ns += more->emulator_ns;
        lost->count += more->count;
        return;
    }
    g_array_append_vals(losses, more, 1);
}

/* ---- use of GPUs ---- */

/* The length of the sum before a window was added, of the window, and of both. There may be a gap
 * between them. */
struct sum_lengths {
    int64_t before_ns;
    int64_t more_ns;
    int64_t all_ns;
};

/* Returns the mean over the sum of a figure with these means before the window and in it. */
static double
window_sum_mean(double before, double more, const struct sum_lengths *lengths)
{
    if (lengths->all_ns <= 0)
        return more;
    return (before * (double)lengths->before_ns + more * (double)lengths->more_ns) /
           (double)lengths->all_ns;
}

/* Lets the time of a window pass for a row that the window may not contain: if it does not, nothing
 * was reported as waiting, open or held at its end. */
static void
window_sum_pass(struct vg_gpu_sample *gpu, const struct sum_lengths *lengths)
{
#define PASS(place, member, kind, ...)                                                             \
 VG_FIGURE_IF_STORED(                                                                              \
     kind,                                                                                         \
     if (VG_FIGURE_##kind == VG_FIGURE_LAST || VG_FIGURE_##kind == VG_FIGURE_MEAN) gpu->member =   \
         VG_FIGURE_##kind == VG_FIGURE_LAST                                                        \
             ? 0                                                                                   \
             : (__typeof__(gpu->member))window_sum_mean((double)gpu->member, 0, lengths);)
    VG_GPU_FIGURES(PASS)
#undef PASS
}

static void
window_sum_pass_all(struct vg_window *sum, const struct sum_lengths *lengths)
{
    for (guint i = 0; i < sum->gpus->len; i++)
        window_sum_pass(&g_array_index(sum->gpus, struct vg_gpu_sample, i), lengths);
    for (guint i = 0; i < sum->gpu_processes->len; i++)
        window_sum_pass(&g_array_index(sum->gpu_processes, struct vg_gpu_process_sample, i).gpu,
                        lengths);
    for (guint i = 0; i < sum->vms->len; i++) {
        const GArray *gpus = g_array_index(sum->vms, struct vg_vm_sample, i).gpus;
        for (guint k = 0; k < gpus->len; k++)
            window_sum_pass(&g_array_index(gpus, struct vg_gpu_sample, k), lengths);
    }
}

/* Converts a row of a window to a row of a sum. */
static void
window_sum_begin_row(struct vg_gpu_sample *gpu, const struct sum_lengths *lengths)
{
#define BEGIN(place, member, kind, ...)                                                            \
 VG_FIGURE_IF_STORED(                                                                              \
     kind, if (VG_FIGURE_##kind == VG_FIGURE_MEAN) gpu->member =                                   \
               (__typeof__(gpu->member))window_sum_mean(0, (double)gpu->member, lengths);)
    VG_GPU_FIGURES(BEGIN)
#undef BEGIN
    if (gpu->told_ns == 0)
        gpu->told_ns = lengths->more_ns;
    if (gpu->most_requests == 0)
        gpu->most_requests = gpu->requests;
}

/* Times are limited instead of overflowing. */
#define PLUS_NS(a, b)      vg_time_sum(a, b)
#define PLUS_LATENCY(a, b) vg_time_sum(a, b)
#define PLUS_BYTES(a, b)   vg_time_sum(a, b)
#define PLUS_COUNT(a, b)   ((a) + (b))
#define PLUS_RATIO(a, b)   ((a) + (b))

/* Adds a row of a window to one for which time has passed. */
static void
window_sum_add_row(struct vg_gpu_sample *gpu, const struct vg_gpu_sample *of_window,
                   const struct sum_lengths *lengths)
{
    struct vg_gpu_sample more = *of_window;

    window_sum_begin_row(&more, lengths);
    /* The sum started as a copy of a window. */
    if (gpu->told_ns == 0)
        gpu->told_ns = lengths->before_ns;
    if (gpu->most_requests == 0)
        gpu->most_requests = gpu->requests;
    const bool is_most = more.most_requests > gpu->most_requests;
    gpu->most_requests = MAX(gpu->most_requests, more.most_requests);
    /* Only the newest window knows what is open at the end. */
    gpu->lacks = (gpu->lacks & more.lacks) | (more.lacks & VG_GPU_NO_OPEN);
#define ADD(place, member, kind, unit, ...)                                                        \
 VG_FIGURE_IF_STORED(kind, gpu->member = VG_FIGURE_##kind == VG_FIGURE_MOST                        \
                                             ? (is_most ? more.member : gpu->member)               \
                                         : VG_FIGURE_##kind == VG_FIGURE_MAX                       \
                                             ? MAX(gpu->member, more.member)                       \
                                         : VG_FIGURE_##kind == VG_FIGURE_LAST                      \
                                             ? more.member                                         \
                                             : PLUS_##unit(gpu->member, more.member);)
    VG_GPU_FIGURES(ADD)
#undef ADD
    const struct sum_lengths told = {gpu->told_ns, more.told_ns,
                                     vg_time_sum(gpu->told_ns, more.told_ns)};
    gpu->confidence = window_sum_mean(gpu->confidence, more.confidence, &told);
    gpu->told_ns = told.all_ns;
}

static bool
is_same_engine(const struct vg_gpu_sample *a, const struct vg_gpu_sample *b)
{
    return strcmp(a->device, b->device) == 0 && strcmp(a->engine, b->engine) == 0;
}

static void
add_gpu(GArray *gpus, const struct vg_gpu_sample *more, const struct sum_lengths *lengths)
{
    struct vg_gpu_sample fresh = *more;

    for (guint i = 0; i < gpus->len; i++) {
        struct vg_gpu_sample *gpu = &g_array_index(gpus, struct vg_gpu_sample, i);
        if (is_same_engine(gpu, more)) {
            window_sum_add_row(gpu, more, lengths);
            return;
        }
    }
    window_sum_begin_row(&fresh, lengths);
    g_array_append_val(gpus, fresh);
}

/* Returns the row that was not reported for the longest time, and the least busy of several. */
static guint
least_wanted(const GArray *processes)
{
    const struct vg_gpu_process_sample *rows =
        &g_array_index(processes, struct vg_gpu_process_sample, 0);
    guint least = 0;

    for (guint i = 1; i < processes->len; i++) {
        if (rows[i].seen_ns < rows[least].seen_ns ||
            (rows[i].seen_ns == rows[least].seen_ns &&
             rows[i].gpu.busy_ns < rows[least].gpu.busy_ns))
            least = i;
    }
    return least;
}

static void
add_gpu_process(struct vg_window *sum, const struct vg_gpu_process_sample *more,
                const struct sum_lengths *lengths)
{
    GArray *processes = sum->gpu_processes;
    struct vg_gpu_process_sample fresh = *more;

    fresh.seen_ns = sum->end_ns;
    for (guint i = 0; i < processes->len; i++) {
        struct vg_gpu_process_sample *process =
            &g_array_index(processes, struct vg_gpu_process_sample, i);
        if (process->pid == more->pid && is_same_engine(&process->gpu, &more->gpu)) {
            window_sum_add_row(&process->gpu, &more->gpu, lengths);
            process->seen_ns = sum->end_ns;
            return;
        }
    }
    if (processes->len >= VG_WINDOW_GPU_PROCESSES_MAX) {
        g_array_remove_index_fast(processes, least_wanted(processes));
        sum->gpu_processes_left_out++;
    }
    window_sum_begin_row(&fresh.gpu, lengths);
    g_array_append_val(processes, fresh);
}

static void
add_vm(struct vg_window *sum, const struct vg_vm_sample *more, const struct sum_lengths *lengths)
{
    struct vg_vm_sample *vm = need_vm(sum, more->id);

    vm->pid = more->pid;
    g_strlcpy(vm->name, more->name, sizeof(vm->name));
    if (more->uuid[0])
        g_strlcpy(vm->uuid, more->uuid, sizeof(vm->uuid));
    vm->guest_known = vm->guest_known || more->guest_known;
    vm->lacks |= more->lacks;
    vm->gpu_known = vm->gpu_known || more->gpu_known;
    vm->gpu_active_ns = vg_time_sum(vm->gpu_active_ns, more->gpu_active_ns);
    vg_cpu_figures_add(&vm->cpu, &more->cpu);
    for (guint i = 0; i < more->vcpus->len; i++)
        add_vcpu(vm->vcpus, &g_array_index(more->vcpus, struct vg_vcpu_sample, i));
    for (guint i = 0; i < more->lost_to->len; i++)
        window_sum_add_lost(vm->lost_to, &g_array_index(more->lost_to, struct vg_lost_to, i));
    if (more->lost_to->len > 0)
        vg_window_sort_lost_to(vm->lost_to);
    for (guint i = 0; i < more->lost_processes->len; i++)
        vg_process_sum_add(vm->lost_processes,
                           &g_array_index(more->lost_processes, struct vg_lost_process, i));
    if (more->lost_processes->len > 0)
        vg_window_sort_lost_processes(vm->lost_processes);
    for (guint i = 0; i < more->gpus->len; i++)
        add_gpu(vm->gpus, &g_array_index(more->gpus, struct vg_gpu_sample, i), lengths);
    vg_window_update_cpus(vm->cpus, more);
}

static void
window_sum_add_programs(struct vg_window *sum, const struct vg_window *more)
{
    if (more->programs_ns == 0)
        return;
    for (guint i = 0; i < more->programs->len; i++)
        vg_process_sum_add(sum->programs,
                           &g_array_index(more->programs, struct vg_lost_process, i));
    vg_window_sort_lost_processes(sum->programs);
    sum->programs_ns = vg_time_sum(sum->programs_ns, more->programs_ns);
    sum->programs_end_ns = more->programs_end_ns;
}

void
vg_window_add(struct vg_window *sum, const struct vg_window *more)
{
    struct sum_lengths lengths = {.before_ns = sum->end_ns - sum->begin_ns,
                                  .more_ns = more->end_ns - more->begin_ns};

    if (lengths.before_ns == 0)
        sum->begin_ns = more->begin_ns;
    sum->end_ns = more->end_ns;
    lengths.all_ns = sum->end_ns - sum->begin_ns;
    window_sum_pass_all(sum, &lengths);
    sum->lost_events += more->lost_events;
    sum->lost_packets += more->lost_packets;
    sum->discontinuities += more->discontinuities;
    for (guint i = 0; i < more->vms->len; i++)
        add_vm(sum, &g_array_index(more->vms, struct vg_vm_sample, i), &lengths);
    vg_window_sort_vms(sum);
    for (guint i = 0; i < more->gpus->len; i++)
        add_gpu(sum->gpus, &g_array_index(more->gpus, struct vg_gpu_sample, i), &lengths);
    for (guint i = 0; i < more->gpu_processes->len; i++)
        add_gpu_process(sum, &g_array_index(more->gpu_processes, struct vg_gpu_process_sample, i),
                        &lengths);
    window_sum_add_programs(sum, more);
}

/* ---- who is gone ---- */

/* Moves losses from one aggressor to another. Returns false if no VM lost anything to it. */
static bool
window_sum_move_losses(const struct vg_window *sum, uint32_t from, uint32_t to)
{
    bool any = false;

    for (guint i = 0; i < sum->vms->len; i++) {
        GArray *losses = g_array_index(sum->vms, struct vg_vm_sample, i).lost_to;
        for (guint k = 0; k < losses->len; k++) {
            struct vg_lost_to lost = g_array_index(losses, struct vg_lost_to, k);
            if (lost.kind != VG_AGGRESSOR_VM || lost.vm_id != from)
                continue;
            g_array_remove_index(losses, k);
            lost.vm_id = to;
            window_sum_add_lost(losses, &lost);
            vg_window_sort_lost_to(losses);
            any = true;
            break;
        }
    }
    return any;
}

/* Removes a VM that no longer exists, and the losses to it. */
static void
window_sum_end_gone(struct vg_window *sum, guint at)
{
    const uint32_t id = g_array_index(sum->gone, struct vg_gone_vm, at).id;

    for (guint i = 0; i < sum->vms->len; i++) {
        GArray *losses = g_array_index(sum->vms, struct vg_vm_sample, i).lost_to;
        for (guint k = losses->len; k > 0; k--) {
            const struct vg_lost_to *lost = &g_array_index(losses, struct vg_lost_to, k - 1);
            if (lost->kind == VG_AGGRESSOR_VM && lost->vm_id == id)
                g_array_remove_index(losses, k - 1);
        }
    }
    g_array_remove_index(sum->gone, at);
}

/* Removes a VM that left the sum, or has a new name from now on. */
static void
window_sum_leave(struct vg_window *sum, guint at)
{
    const struct vg_vm_sample *vm = &g_array_index(sum->vms, struct vg_vm_sample, at);
    const uint32_t id = vm->id;
    struct vg_gone_vm gone = {.id = VG_GONE_ID_FIRST + sum->n_gone % VG_GONE_ID_FIRST};

    g_strlcpy(gone.name, vm->name, sizeof(gone.name));
    g_array_remove_index(sum->vms, at);
    if (!window_sum_move_losses(sum, id, gone.id))
        return;
    sum->n_gone++;
    g_array_append_val(sum->gone, gone);
}

static bool
window_sum_is_wanted(const struct vg_window *sum, uint32_t id)
{
    for (guint i = 0; i < sum->vms->len; i++) {
        const GArray *losses = g_array_index(sum->vms, struct vg_vm_sample, i).lost_to;
        for (guint k = 0; k < losses->len; k++) {
            const struct vg_lost_to *lost = &g_array_index(losses, struct vg_lost_to, k);
            if (lost->kind == VG_AGGRESSOR_VM && lost->vm_id == id)
                return true;
        }
    }
    return false;
}

/* Forgets VMs that no longer exist and to which no VM lost anything, and the oldest if there are
 * too many.
 */
static void
window_sum_limit_gone(struct vg_window *sum)
{
    for (guint i = sum->gone->len; i > 0; i--) {
        if (!window_sum_is_wanted(sum, g_array_index(sum->gone, struct vg_gone_vm, i - 1).id))
            g_array_remove_index(sum->gone, i - 1);
    }
    while (sum->gone->len > VG_SUM_GONE_MAX)
        window_sum_end_gone(sum, 0);
}

/* Continues the losses to a VM that no longer exists under a VM with the same name, because names
 * are the labels. */
static void
window_sum_take_over(struct vg_window *sum)
{
    for (guint i = sum->gone->len; i > 0; i--) {
        const struct vg_gone_vm gone = g_array_index(sum->gone, struct vg_gone_vm, i - 1);
        for (guint v = 0; v < sum->vms->len; v++) {
            const struct vg_vm_sample *vm = &g_array_index(sum->vms, struct vg_vm_sample, v);
            if (strcmp(vm->name, gone.name) != 0)
                continue;
            window_sum_move_losses(sum, gone.id, vm->id);
            g_array_remove_index(sum->gone, i - 1);
            break;
        }
    }
}

void
vg_window_add_live(struct vg_window *sum, const struct vg_window *window)
{
    const guint before = sum->vms->len;

    for (guint i = sum->vms->len; i > 0; i--) {
        const struct vg_vm_sample *vm = &g_array_index(sum->vms, struct vg_vm_sample, i - 1);
        const struct vg_vm_sample *now = vg_window_vm(window, vm->id);
        if (!now || strcmp(now->name, vm->name) != 0)
            window_sum_leave(sum, i - 1);
    }
    const guint stayed = sum->vms->len;
    vg_window_add(sum, window);
    if (sum->vms->len > stayed || stayed < before)
        window_sum_take_over(sum);
    if (stayed < before)
        window_sum_limit_gone(sum);
}

void
vg_window_copy(struct vg_window *to, const struct vg_window *from)
{
    vg_window_init(to, false);
    to->begin_ns = from->begin_ns;
    to->end_ns = from->end_ns;
    to->lost_events = from->lost_events;
    to->lost_packets = from->lost_packets;
    to->discontinuities = from->discontinuities;
    to->host = from->host;
    to->n_gone = from->n_gone;
    for (guint i = 0; i < from->vms->len; i++) {
        struct vg_vm_sample vm = g_array_index(from->vms, struct vg_vm_sample, i);
        vm.vcpus = g_array_copy(vm.vcpus);
        vm.lost_to = g_array_copy(vm.lost_to);
        vm.gpus = g_array_copy(vm.gpus);
        vm.cpus = g_array_copy(vm.cpus);
        vm.places = g_array_copy(vm.places);
        vm.lost_processes = g_array_copy(vm.lost_processes);
        g_array_append_val(to->vms, vm);
    }
    g_array_append_vals(to->gone, from->gone->data, from->gone->len);
    g_array_append_vals(to->gpus, from->gpus->data, from->gpus->len);
    g_array_append_vals(to->gpu_processes, from->gpu_processes->data, from->gpu_processes->len);
    g_array_append_vals(to->gpu_requests, from->gpu_requests->data, from->gpu_requests->len);
    g_array_append_vals(to->cpus, from->cpus->data, from->cpus->len);
    g_array_append_vals(to->proxies, from->proxies->data, from->proxies->len);
    g_array_append_vals(to->gpu_cards, from->gpu_cards->data, from->gpu_cards->len);
    vg_window_copy_programs(to, from);
    to->gpu_processes_left_out = from->gpu_processes_left_out;
}
