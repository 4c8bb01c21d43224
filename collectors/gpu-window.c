/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "collectors/gpu-window.h"

#include <string.h>

struct vg_vm_sample *
vg_gpu_window_vm(struct vg_window *window, const struct vg_proc_vm *vm)
{
    struct vg_vm_sample *known = vg_window_find_vm(window, vm->id);
    struct vg_vm_sample sample;

    if (known)
        return known;
    vg_vm_sample_init(&sample);
    sample.id = vm->id;
    sample.pid = vm->pid;
    sample.gpu_known = true;
    g_strlcpy(sample.name, vm->name, sizeof(sample.name));
    g_strlcpy(sample.uuid, vm->uuid, sizeof(sample.uuid));
    g_array_append_val(window->vms, sample);
    return &g_array_index(window->vms, struct vg_vm_sample, window->vms->len - 1);
}

void
vg_gpu_window_add(GArray *gpus, const struct vg_gpu_sample *more)
{
    for (unsigned i = 0; i < gpus->len; i++) {
        struct vg_gpu_sample *gpu = &g_array_index(gpus, struct vg_gpu_sample, i);
        if (strcmp(gpu->device, more->device) != 0 || strcmp(gpu->engine, more->engine) != 0)
            continue;
        gpu->lacks &= more->lacks;
        gpu->queue_len_avg += more->queue_len_avg;
        gpu->contexts += more->contexts;
#define ADD(place, member, kind, ...)                                                              \
 VG_FIGURE_IF_STORED(kind, if (VG_FIGURE_##kind == VG_FIGURE_SUM ||                                \
                               VG_FIGURE_##kind == VG_FIGURE_PART ||                               \
                               VG_FIGURE_##kind == VG_FIGURE_TOTAL) gpu->member += more->member;)
        VG_GPU_FIGURES(ADD)
#undef ADD
        return;
    }
    g_array_append_vals(gpus, more, 1);
}

void
vg_gpu_window_get_memory(const GArray *gpus, const char *device, int64_t *ret_bytes,
                         int64_t *ret_peak_bytes)
{
    for (unsigned i = 0; i < gpus->len; i++) {
        const struct vg_gpu_sample *gpu = &g_array_index(gpus, struct vg_gpu_sample, i);
        if (strcmp(gpu->device, device) != 0)
            continue;
        *ret_bytes = gpu->mem_bytes;
        *ret_peak_bytes = gpu->mem_peak_bytes;
        return;
    }
}

void
vg_gpu_window_set_memory(GArray *gpus, const char *device, int64_t bytes, int64_t peak_bytes)
{
    for (unsigned i = 0; i < gpus->len; i++) {
        struct vg_gpu_sample *gpu = &g_array_index(gpus, struct vg_gpu_sample, i);
        if (strcmp(gpu->device, device) != 0)
            continue;
        gpu->mem_bytes = bytes;
        gpu->mem_peak_bytes = MAX(bytes, peak_bytes);
        gpu->lacks &= ~(unsigned int)VG_GPU_NO_MEMORY;
    }
}

static bool
is_at_work(const struct vg_gpu_sample *gpu)
{
    return gpu->busy_ns > 0 || gpu->exec_ns > 0 || gpu->wait_ns > 0 || gpu->requests > 0;
}

static bool
device_is_at_work(const GArray *gpus, const char *device)
{
    for (unsigned i = 0; i < gpus->len; i++) {
        const struct vg_gpu_sample *gpu = &g_array_index(gpus, struct vg_gpu_sample, i);
        if (strcmp(gpu->device, device) == 0 && is_at_work(gpu))
            return true;
    }
    return false;
}

/* Returns whether the rows of a device report only its memory. */
static bool
device_has_no_work(const GArray *gpus, const char *device)
{
    for (unsigned i = 0; i < gpus->len; i++) {
        const struct vg_gpu_sample *gpu = &g_array_index(gpus, struct vg_gpu_sample, i);
        if (strcmp(gpu->device, device) == 0 && !(gpu->lacks & VG_GPU_NO_WORK))
            return false;
    }
    return true;
}

static bool
has_device(const GArray *gpus, unsigned n, const char *device)
{
    for (unsigned i = 0; i < n; i++) {
        if (strcmp(g_array_index(gpus, struct vg_gpu_sample, i).device, device) == 0)
            return true;
    }
    return false;
}

static void
lead_device(GArray *gpus, const GArray *better, const char *device)
{
    int64_t bytes = 0, peak_bytes = 0;

    vg_gpu_window_get_memory(gpus, device, &bytes, &peak_bytes);
    for (unsigned i = gpus->len; i > 0; i--) {
        if (strcmp(g_array_index(gpus, struct vg_gpu_sample, i - 1).device, device) == 0)
            g_array_remove_index(gpus, i - 1);
    }
    for (unsigned i = 0; i < better->len; i++) {
        const struct vg_gpu_sample *gpu = &g_array_index(better, struct vg_gpu_sample, i);
        if (strcmp(gpu->device, device) == 0)
            g_array_append_vals(gpus, gpu, 1);
    }
    if (bytes > 0)
        vg_gpu_window_set_memory(gpus, device, bytes, peak_bytes);
}

void
vg_gpu_window_lead(GArray *gpus, const GArray *better)
{
    for (unsigned i = 0; i < better->len; i++) {
        const struct vg_gpu_sample *gpu = &g_array_index(better, struct vg_gpu_sample, i);
        const char *device = gpu->device;
        if (device_has_no_work(better, device) && has_device(gpus, gpus->len, device))
            vg_gpu_window_set_memory(gpus, device, gpu->mem_bytes, gpu->mem_peak_bytes);
        else if (!has_device(better, i, device) &&
                 (device_is_at_work(better, device) || !device_is_at_work(gpus, device)))
            lead_device(gpus, better, device);
    }
}

int64_t
vg_gpu_window_share(int64_t all, int64_t since_ns, int64_t end_ns, int64_t now_ns)
{
    if (end_ns >= now_ns)
        return all;
    if (end_ns <= since_ns)
        return 0;
    return (int64_t)((__int128)all * (end_ns - since_ns) / (now_ns - since_ns));
}

static uint32_t
find_row(const GArray *gpus, const struct vg_gpu_sample *like)
{
    uint32_t row = 0;

    for (; row < gpus->len; row++) {
        const struct vg_gpu_sample *gpu = &g_array_index(gpus, struct vg_gpu_sample, row);
        if (strcmp(gpu->device, like->device) == 0 && strcmp(gpu->engine, like->engine) == 0)
            break;
    }
    return row;
}

uint32_t
vg_gpu_window_row(struct vg_window *window, const struct vg_gpu_sample *gpu)
{
    uint32_t row = find_row(window->gpus, gpu);

    if (row == window->gpus->len)
        g_array_append_vals(window->gpus, gpu, 1);
    return row;
}

static int
compare_gpus(const void *a, const void *b)
{
    const struct vg_gpu_sample *x = a, *y = b;
    int by_device = strcmp(x->device, y->device);

    return by_device ? by_device : strcmp(x->engine, y->engine);
}

/* Compares by device, then by engine, the busiest process first. */
static int
compare_processes(const void *a, const void *b)
{
    const struct vg_gpu_process_sample *x = a, *y = b;
    int by_engine = compare_gpus(&x->gpu, &y->gpu);

    if (by_engine)
        return by_engine;
    if (x->gpu.busy_ns != y->gpu.busy_ns)
        return x->gpu.busy_ns < y->gpu.busy_ns ? 1 : -1;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

/* Sets the confidence to 1 if the source sets none: it reads counters, which lose nothing. */
static void
gpu_window_set_confidence(struct vg_gpu_sample *gpu)
{
    if (gpu->confidence <= 0)
        gpu->confidence = 1;
}

/* Sorts the rows and returns the busiest engine's time. */
static int64_t
finish_gpus(GArray *gpus, int64_t window_ns)
{
    int64_t most_ns = 0;

    for (unsigned i = 0; i < gpus->len; i++) {
        struct vg_gpu_sample *gpu = &g_array_index(gpus, struct vg_gpu_sample, i);
        gpu->busy_ns = CLAMP(gpu->busy_ns, 0, window_ns);
        gpu_window_set_confidence(gpu);
        most_ns = MAX(most_ns, gpu->busy_ns);
    }
    g_array_sort(gpus, compare_gpus);
    return most_ns;
}

/* Sorts the host's rows and updates the row numbers of the requests. */
static void
finish_window_gpus(struct vg_window *window, int64_t window_ns)
{
    g_autoptr(GArray) before = g_array_copy(window->gpus);

    finish_gpus(window->gpus, window_ns);
    for (unsigned i = 0; i < window->gpu_requests->len; i++) {
        struct vg_gpu_request_sample *request =
            &g_array_index(window->gpu_requests, struct vg_gpu_request_sample, i);
        request->gpu =
            find_row(window->gpus, &g_array_index(before, struct vg_gpu_sample, request->gpu));
    }
}

void
vg_gpu_window_finish(struct vg_window *window)
{
    int64_t window_ns = window->end_ns - window->begin_ns;

    for (unsigned i = 0; i < window->vms->len; i++) {
        struct vg_vm_sample *vm = &g_array_index(window->vms, struct vg_vm_sample, i);
        int64_t most_ns = finish_gpus(vm->gpus, window_ns);
        vm->gpu_active_ns = CLAMP(vm->gpu_active_ns, most_ns, MAX(window_ns, most_ns));
    }
    finish_window_gpus(window, window_ns);
    for (unsigned i = 0; i < window->gpu_processes->len; i++) {
        struct vg_gpu_sample *gpu =
            &g_array_index(window->gpu_processes, struct vg_gpu_process_sample, i).gpu;
        gpu->busy_ns = CLAMP(gpu->busy_ns, 0, window_ns);
        gpu_window_set_confidence(gpu);
    }
    g_array_sort(window->gpu_processes, compare_processes);
    vg_window_sort_vms(window);
}
