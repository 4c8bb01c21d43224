/* SPDX-License-Identifier: Apache-2.0
 *
 * The half of the GPU ledger that is read: the figures of a window or of the whole period.
 */
#include "config.h"

#include <string.h>

#include "ledger/gpu-ledger-private.h"

/* The sum of a VM's or process's use of an engine. */
struct build {
    struct vg_process *process;
    const char *comm;
    struct vg_gpu_sample sample;
    struct vg_histogram latency;
};

struct reading {
    struct vg_gpu_ledger *ledger;
    struct vg_window *window;
    enum gpu_book_kind kind;
    struct gpu_interval time;
    GPtrArray *builds; /* struct build */
};

static int64_t
gpu_read_length(const struct reading *reading)
{
    return reading->time.end_ns - reading->time.begin_ns;
}

static void
gpu_read_build_free(void *data)
{
    struct build *build = data;

    vg_histogram_clear(&build->latency);
    g_free(build);
}

static void
gpu_read_name_sample(const struct vg_gpu_ledger *ledger, const struct gpu_engine *engine,
                     struct vg_gpu_sample *sample)
{
    const char *device = engine->device == VG_NAME_NONE
                             ? VG_GPU_DEVICE_UNNAMED
                             : vg_names_text(ledger->names, engine->device);

    g_strlcpy(sample->device, device, sizeof(sample->device));
    g_strlcpy(sample->engine, vg_names_text(ledger->names, engine->name), sizeof(sample->engine));
    if (ledger->holdings->len == 0)
        sample->lacks |= VG_GPU_NO_MEMORY;
    if (ledger->lacks_ends)
        sample->lacks |= VG_GPU_NO_DONE;
}

static struct vg_process *
gpu_read_process_of(const struct vg_gpu_ledger *ledger, const struct gpu_owner *owner)
{
    struct vg_process *process = vg_topology_process_at(ledger->topology, owner->process);

    return process ? vg_process_resolve(process) : NULL;
}

static struct build *
gpu_read_need_build(struct reading *reading, struct vg_process *process,
                    const struct gpu_owner *owner, const struct gpu_engine *engine)
{
    struct vg_gpu_sample names = {0};

    gpu_read_name_sample(reading->ledger, engine, &names);
    for (guint i = 0; i < reading->builds->len; i++) {
        struct build *build = g_ptr_array_index(reading->builds, i);
        if (build->process == process && strcmp(build->sample.device, names.device) == 0 &&
            strcmp(build->sample.engine, names.engine) == 0)
            return build;
    }
    struct build *build = g_new0(struct build, 1);
    build->process = process;
    build->comm = owner->comm;
    build->sample = names;
    g_ptr_array_add(reading->builds, build);
    return build;
}

static bool
gpu_read_has_nothing(const struct vg_gpu_sample *sample)
{
    return sample->requests == 0 && sample->partial == 0 && sample->exec_ns == 0 &&
           sample->wait_ns == 0 && sample->mem_bytes == 0 && sample->open == 0;
}

static void
gpu_read_add_users(struct reading *reading)
{
    struct vg_gpu_ledger *ledger = reading->ledger;

    for (guint i = 0; i < ledger->users->len; i++) {
        struct gpu_user *user = gpu_user_at(ledger, i);
        if (!user)
            continue;
        const struct gpu_owner *owner = gpu_owner_at(ledger, user->owner);
        struct vg_process *process = gpu_read_process_of(ledger, owner);
        if (!process)
            continue;
        struct build *build = gpu_read_need_build(
            reading, process, owner, gpu_engine_at(ledger, gpu_engine_real(ledger, user->engine)));
        gpu_meter_read(&user->meter, reading->kind, reading->time, &build->sample, &build->latency);
    }
}

/* Adds figures of a whole device to each of its engines. */
static void
gpu_read_add_memory(const struct reading *reading, struct build *build)
{
    const struct vg_gpu_ledger *ledger = reading->ledger;

    for (guint i = 0; i < ledger->holdings->len; i++) {
        const struct gpu_holding *holding = &g_array_index(ledger->holdings, struct gpu_holding, i);
        if (holding->owner == GPU_NO_INDEX ||
            (holding->device != VG_NAME_NONE &&
             strcmp(vg_names_text(ledger->names, holding->device), build->sample.device) != 0) ||
            gpu_read_process_of(ledger, gpu_owner_at(ledger, holding->owner)) != build->process)
            continue;
        build->sample.mem_bytes = vg_time_sum(build->sample.mem_bytes, holding->bytes);
        build->sample.mem_peak_bytes = vg_time_sum(build->sample.mem_peak_bytes, holding->peak);
    }
}

static void
gpu_read_add_slices(const struct reading *reading, struct build *build)
{
    const struct vg_gpu_ledger *ledger = reading->ledger;

    for (guint i = 0; i < ledger->vgpus->len; i++) {
        const struct gpu_vgpu *vgpu = gpu_vgpu_at(ledger, i);
        if (!vgpu ||
            strcmp(vg_names_text(ledger->names, vgpu->device), build->sample.device) != 0 ||
            gpu_read_process_of(ledger, gpu_owner_at(ledger, vgpu->owner)) != build->process)
            continue;
        build->sample.slices += vgpu->slices[reading->kind];
        build->sample.suspended_ns =
            vg_time_sum(build->sample.suspended_ns, vgpu->suspended_ns[reading->kind]);
    }
}

/* ---- into the window ---- */

static struct vg_vm_sample *
gpu_read_need_vm(struct vg_window *window, const struct vg_process *process)
{
    struct vg_vm_sample *known = vg_window_find_vm(window, process->id);
    struct vg_vm_sample vm;

    if (known)
        return known;
    vg_vm_sample_init(&vm);
    vm.id = process->id;
    vm.pid = process->pid;
    vg_process_vm_name(process, vm.name);
    memcpy(vm.uuid, process->uuid, sizeof(vm.uuid));
    g_array_append_val(window->vms, vm);
    return &g_array_index(window->vms, struct vg_vm_sample, window->vms->len - 1);
}

static void
gpu_read_add_to_process(const struct reading *reading, const struct build *build)
{
    struct vg_gpu_process_sample process = {
        .pid = build->process->pid,
        .gpu = build->sample,
    };

    g_strlcpy(process.comm, build->comm, sizeof(process.comm));
    g_array_append_val(reading->window->gpu_processes, process);
}

static void
gpu_read_hand_out(struct reading *reading)
{
    for (guint i = 0; i < reading->builds->len; i++) {
        struct build *build = g_ptr_array_index(reading->builds, i);
        gpu_read_add_memory(reading, build);
        if (gpu_read_has_nothing(&build->sample))
            continue;
        gpu_meter_finish_sample(&build->sample, &build->latency, gpu_read_length(reading));
        gpu_read_add_slices(reading, build);
        if (build->process->is_vm)
            g_array_append_val(gpu_read_need_vm(reading->window, build->process)->gpus,
                               build->sample);
        else
            gpu_read_add_to_process(reading, build);
    }
}

static void
gpu_read_add_activity(struct reading *reading)
{
    const struct vg_gpu_ledger *ledger = reading->ledger;

    for (guint i = 0; i < ledger->owners->len; i++) {
        const struct gpu_owner *owner = gpu_owner_at(ledger, i);
        struct vg_process *process = owner ? gpu_read_process_of(ledger, owner) : NULL;
        if (!process || !process->is_vm)
            continue;
        struct vg_vm_sample *vm = gpu_read_need_vm(reading->window, process);
        vm->gpu_active_ns = vg_time_sum(vm->gpu_active_ns, owner->active.sum_ns[reading->kind] +
                                                               owner->active.more_ns);
        vm->gpu_active_ns = MIN(vm->gpu_active_ns, gpu_read_length(reading));
    }
}

static void
gpu_read_add_engines(struct reading *reading)
{
    const struct vg_gpu_ledger *ledger = reading->ledger;

    for (guint i = 0; i < ledger->engines->len; i++) {
        struct vg_gpu_sample sample = {0};
        struct vg_histogram latency = {0};
        if (gpu_engine_real(ledger, i) != i)
            continue;
        gpu_read_name_sample(ledger, gpu_engine_at(ledger, i), &sample);
        for (guint k = 0; k < ledger->engines->len; k++) {
            if (gpu_engine_real(ledger, k) == i)
                gpu_meter_read(&gpu_engine_at(ledger, k)->meter, reading->kind, reading->time,
                               &sample, &latency);
        }
        gpu_meter_finish_sample(&sample, &latency, gpu_read_length(reading));
        vg_histogram_clear(&latency);
        g_array_append_val(reading->window->gpus, sample);
    }
}

/* Returns the index of an engine among the window's gpus. */
static uint32_t
gpu_read_row_of(const struct vg_gpu_ledger *ledger, const struct vg_window *window,
                const struct vg_gpu_life *life)
{
    const struct gpu_engine engine = {.device = life->device, .name = life->engine};
    struct vg_gpu_sample names = {0};
    guint i = 0;

    gpu_read_name_sample(ledger, &engine, &names);
    while (i + 1 < window->gpus->len) {
        const struct vg_gpu_sample *gpu = &g_array_index(window->gpus, struct vg_gpu_sample, i);
        if (strcmp(gpu->device, names.device) == 0 && strcmp(gpu->engine, names.engine) == 0)
            break;
        i++;
    }
    return i;
}

static void
gpu_read_add_request(void *data, const struct vg_gpu_life *life, uint32_t left_out)
{
    const struct reading *reading = data;
    const struct vg_gpu_ledger *ledger = reading->ledger;
    struct vg_process *process = vg_topology_process_at(ledger->topology, life->process);
    process = process ? vg_process_resolve(process) : NULL;
    const struct vg_gpu_request_sample request = {
        .gpu = gpu_read_row_of(ledger, reading->window, life),
        .vm = process && process->is_vm ? process->id : VG_PROCESS_NO_ID,
        .pid = process ? process->pid : 0,
        .coalesced = life->coalesced,
        .left_out = left_out,
        .context = life->context,
        .seqno = life->seqno,
        .queued_ns = life->queued_ns,
        .submitted_ns = life->submitted_ns,
        .ready_ns = life->ready_ns,
        .run_ns = life->run_ns,
        .end_ns = life->end_ns,
        .exec_ns = life->exec_ns,
    };

    g_array_append_val(reading->window->gpu_requests, request);
}

static void
gpu_read_add_requests(struct reading *reading)
{
    GArray *requests = reading->window->gpu_requests;
    uint32_t left_out = gpu_kept_each(reading->ledger->kept, gpu_read_add_request, reading);

    if (left_out > 0)
        g_array_index(requests, struct vg_gpu_request_sample, requests->len - 1).left_out +=
            left_out;
}

static int
gpu_read_compare_engines(const void *a, const void *b)
{
    const struct vg_gpu_sample *x = a, *y = b;
    int by_device = strcmp(x->device, y->device);

    return by_device != 0 ? by_device : strcmp(x->engine, y->engine);
}

static int
gpu_read_compare_processes(const void *a, const void *b)
{
    const struct vg_gpu_process_sample *x = a, *y = b;
    int by_engine = gpu_read_compare_engines(&x->gpu, &y->gpu);

    if (by_engine != 0)
        return by_engine;
    if (x->gpu.busy_ns != y->gpu.busy_ns)
        return x->gpu.busy_ns < y->gpu.busy_ns ? 1 : -1;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

static void
gpu_read_sort(const struct vg_gpu_ledger *ledger, struct vg_window *window)
{
    g_array_sort(window->gpus, gpu_read_compare_engines);
    g_array_sort(window->gpu_processes, gpu_read_compare_processes);
    for (guint i = 0; i < window->vms->len; i++) {
        struct vg_vm_sample *vm = &g_array_index(window->vms, struct vg_vm_sample, i);
        vm->gpu_known = !ledger->lacks_ends;
        g_array_sort(vm->gpus, gpu_read_compare_engines);
    }
    vg_window_sort_vms(window);
}

static void
gpu_read_advance(struct vg_gpu_ledger *ledger, int64_t t_ns)
{
    ledger->now = MAX(ledger->now, t_ns);
    gpu_life_close_old(ledger);
    for (guint i = 0; i < ledger->vgpus->len; i++) {
        if (gpu_vgpu_at(ledger, i))
            gpu_vgpu_advance(ledger, gpu_vgpu_at(ledger, i), ledger->now);
    }
}

static void
gpu_read(struct vg_gpu_ledger *ledger, enum gpu_book_kind kind, struct vg_window *window)
{
    struct reading reading = {
        .ledger = ledger,
        .window = window,
        .kind = kind,
        .time = {ledger->begin_ns[kind], ledger->now},
        .builds = g_ptr_array_new_with_free_func(gpu_read_build_free),
    };

    window->discontinuities += ledger->stats.discontinuities -
                               (kind == GPU_BOOK_PERIOD ? 0 : ledger->discontinuities_told);
    gpu_open_read(ledger, kind);
    gpu_read_add_users(&reading);
    gpu_read_hand_out(&reading);
    gpu_read_add_activity(&reading);
    gpu_read_add_engines(&reading);
    gpu_read_sort(ledger, window);
    if (ledger->kept && kind == GPU_BOOK_WINDOW)
        gpu_read_add_requests(&reading);
    g_ptr_array_unref(reading.builds);
}

void
vg_gpu_ledger_read_period(vg_gpu_ledger *ledger, int64_t t_ns, struct vg_window *window)
{
    if (ledger->stats.events == 0)
        return;
    gpu_read_advance(ledger, t_ns);
    gpu_read(ledger, GPU_BOOK_PERIOD, window);
}

/* ---- periods and windows ---- */

/* Starts a book for owners and vGPUs. */
static void
gpu_read_begin_book(struct vg_gpu_ledger *ledger, enum gpu_book_kind kind)
{
    ledger->begin_ns[kind] = ledger->now;
    for (guint i = 0; i < ledger->owners->len; i++) {
        if (gpu_owner_at(ledger, i))
            gpu_owner_at(ledger, i)->active.sum_ns[kind] = 0;
    }
    for (guint i = 0; i < ledger->vgpus->len; i++) {
        struct gpu_vgpu *vgpu = gpu_vgpu_at(ledger, i);
        if (vgpu)
            vgpu->slices[kind] = 0;
        if (vgpu)
            vgpu->suspended_ns[kind] = 0;
    }
}

void
vg_gpu_ledger_begin(vg_gpu_ledger *ledger, int64_t t_ns)
{
    gpu_read_advance(ledger, t_ns);
    ledger->begun = true;
    ledger->stats.discontinuities = ledger->discontinuities_told = 0;
    gpu_read_begin_book(ledger, GPU_BOOK_PERIOD);
    gpu_read_begin_book(ledger, GPU_BOOK_WINDOW);
    for (guint i = 0; i < ledger->engines->len; i++)
        gpu_meter_begin(&gpu_engine_at(ledger, i)->meter, ledger->now);
    for (guint i = 0; i < ledger->users->len; i++) {
        if (gpu_user_at(ledger, i))
            gpu_meter_begin(&gpu_user_at(ledger, i)->meter, ledger->now);
    }
    gpu_open_tell_over(ledger, GPU_BOOKS_ALL);
}

static void
gpu_read_begin_window(struct vg_gpu_ledger *ledger)
{
    gpu_read_begin_book(ledger, GPU_BOOK_WINDOW);
    for (guint i = 0; i < ledger->engines->len; i++)
        gpu_meter_begin_window(&gpu_engine_at(ledger, i)->meter);
    for (guint i = 0; i < ledger->users->len; i++) {
        if (gpu_user_at(ledger, i))
            gpu_meter_begin_window(&gpu_user_at(ledger, i)->meter);
    }
    gpu_open_tell_over(ledger, 1U << GPU_BOOK_WINDOW);
    if (ledger->kept)
        gpu_kept_begin_window(ledger->kept);
    ledger->discontinuities_told = ledger->stats.discontinuities;
}

void
vg_gpu_ledger_close_window(vg_gpu_ledger *ledger, int64_t t_ns, struct vg_window *window)
{
    if (ledger->stats.events > 0) {
        gpu_read_advance(ledger, t_ns);
        gpu_read(ledger, GPU_BOOK_WINDOW, window);
        if (ledger->windows_only)
            gpu_ledger_forget(ledger);
    }
    ledger->now = MAX(ledger->now, t_ns);
    gpu_read_begin_window(ledger);
}

/* ---- who watches, what it costs ---- */

void
vg_gpu_ledger_watch_stages(vg_gpu_ledger *ledger, vg_gpu_change_fn *fn, void *data)
{
    const struct gpu_requests *all = &ledger->requests;

    ledger->watch_stages = fn;
    ledger->watch_stages_data = data;
    for (uint32_t index = all->age.first; index != GPU_NO_INDEX;
         index = gpu_request_at(all, index)->lists[GPU_LIST_AGE].next)
        gpu_life_tell_now(ledger, index);
}

void
vg_gpu_ledger_read_stats(const vg_gpu_ledger *ledger, struct vg_gpu_ledger_stats *ret)
{
    const struct gpu_requests *all = &ledger->requests;

    *ret = ledger->stats;
    ret->open = all->open;
    ret->lacks_ends = !gpu_ledger_tells_ends(ledger);
    ret->contexts = all->n_contexts;
    ret->bytes = sizeof(*ledger) + all->requests_room * sizeof(struct gpu_request) +
                 all->contexts_room * sizeof(struct gpu_context) +
                 ((uint64_t)all->request_mask + all->context_mask + 2) * sizeof(uint32_t) +
                 gpu_ledger_owner_bytes(ledger);
}
