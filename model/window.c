/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/window.h"

#include <string.h>

#include "model/card-fact.h"

static void
vm_sample_clear(void *data)
{
    struct vg_vm_sample *sample = data;

    g_clear_pointer(&sample->vcpus, g_array_unref);
    g_clear_pointer(&sample->lost_to, g_array_unref);
    g_clear_pointer(&sample->gpus, g_array_unref);
    g_clear_pointer(&sample->cpus, g_array_unref);
    g_clear_pointer(&sample->places, g_array_unref);
    g_clear_pointer(&sample->lost_processes, g_array_unref);
}

void
vg_vm_sample_init(struct vg_vm_sample *sample)
{
    *sample = (struct vg_vm_sample){
        .vcpus = g_array_new(FALSE, TRUE, sizeof(struct vg_vcpu_sample)),
        .lost_to = g_array_new(FALSE, TRUE, sizeof(struct vg_lost_to)),
        .gpus = g_array_new(FALSE, TRUE, sizeof(struct vg_gpu_sample)),
        .cpus = g_array_new(FALSE, TRUE, sizeof(int32_t)),
        .lost_processes = g_array_new(FALSE, TRUE, sizeof(struct vg_lost_process)),
        .places = g_array_new(FALSE, TRUE, sizeof(struct vg_place)),
    };
}

struct vg_host_sample
vg_host_sample_none(void)
{
    struct vg_host_sample none = {.steal_ns = -1,
                                  .pressure_ns = -1,
                                  .runnable = -1,
                                  .own_ns = -1,
                                  .idle_ns = -1,
                                  .load = {-1, -1, -1}};

    for (unsigned i = 0; i < VG_RESOURCE_MAX; i++)
        none.pressure[i] = (struct vg_pressure){-1, -1};
    return none;
}

void
vg_window_init(struct vg_window *window, bool with_tasks)
{
    *window = (struct vg_window){
        .vms = g_array_new(FALSE, TRUE, sizeof(struct vg_vm_sample)),
        .gone = g_array_new(FALSE, TRUE, sizeof(struct vg_gone_vm)),
        .tasks = with_tasks ? g_array_new(FALSE, TRUE, sizeof(struct vg_task_sample)) : NULL,
        .gpus = g_array_new(FALSE, TRUE, sizeof(struct vg_gpu_sample)),
        .gpu_processes = g_array_new(FALSE, TRUE, sizeof(struct vg_gpu_process_sample)),
        .gpu_requests = g_array_new(FALSE, TRUE, sizeof(struct vg_gpu_request_sample)),
        .host = vg_host_sample_none(),
        .cpus = g_array_new(FALSE, TRUE, sizeof(struct vg_host_cpu)),
        .proxies = g_array_new(FALSE, TRUE, sizeof(struct vg_proxy_use)),
        .gpu_cards = g_array_new(FALSE, TRUE, sizeof(struct vg_card_fact)),
        .programs = g_array_new(FALSE, TRUE, sizeof(struct vg_lost_process)),
    };
    g_array_set_clear_func(window->vms, vm_sample_clear);
}

void
vg_window_clear(struct vg_window *window)
{
    g_clear_pointer(&window->vms, g_array_unref);
    g_clear_pointer(&window->gone, g_array_unref);
    g_clear_pointer(&window->tasks, g_array_unref);
    g_clear_pointer(&window->gpus, g_array_unref);
    g_clear_pointer(&window->gpu_processes, g_array_unref);
    g_clear_pointer(&window->gpu_requests, g_array_unref);
    g_clear_pointer(&window->cpus, g_array_unref);
    g_clear_pointer(&window->proxies, g_array_unref);
    g_clear_pointer(&window->gpu_cards, g_array_unref);
    g_clear_pointer(&window->programs, g_array_unref);
}

void
vg_window_copy_programs(struct vg_window *to, const struct vg_window *from)
{
    g_array_set_size(to->programs, 0);
    g_array_append_vals(to->programs, from->programs->data, from->programs->len);
    to->programs_ns = from->programs_ns;
    to->programs_end_ns = from->programs_end_ns;
}

struct vg_vm_sample *
vg_window_find_vm(struct vg_window *window, uint32_t id)
{
    for (unsigned int i = 0; i < window->vms->len; i++) {
        struct vg_vm_sample *vm = &g_array_index(window->vms, struct vg_vm_sample, i);
        if (vm->id == id)
            return vm;
    }
    return NULL;
}

const struct vg_vm_sample *
vg_window_vm(const struct vg_window *window, uint32_t id)
{
    return vg_window_find_vm((struct vg_window *)window, id);
}

/* Adds a CPU to a set (int32_t, ascending), if it is valid and new. */
static void
window_add_cpu(GArray *cpus, int32_t cpu)
{
    guint at = 0;

    while (at < cpus->len && g_array_index(cpus, int32_t, at) < cpu)
        at++;
    if (cpu >= 0 && (at == cpus->len || g_array_index(cpus, int32_t, at) != cpu))
        g_array_insert_val(cpus, at, cpu);
}

void
vg_window_update_cpus(GArray *cpus, const struct vg_vm_sample *sample)
{
    if (sample->cpus_allowed)
        g_array_set_size(cpus, 0);
    for (guint i = 0; sample->cpus && i < sample->cpus->len; i++)
        window_add_cpu(cpus, g_array_index(sample->cpus, int32_t, i));
}

void
vg_window_add_place(GArray *places, int32_t cpu, int64_t run_ns, int64_t wait_ns)
{
    struct vg_place fresh = {.cpu = cpu};
    guint at = 0;

    while (at < places->len && g_array_index(places, struct vg_place, at).cpu < cpu)
        at++;
    if (at == places->len || g_array_index(places, struct vg_place, at).cpu != cpu)
        g_array_insert_val(places, at, fresh);
    struct vg_place *place = &g_array_index(places, struct vg_place, at);
    place->run_ns += run_ns;
    place->wait_ns += wait_ns;
}

void
vg_window_add_last_place(GArray *places, int32_t cpu, int64_t run_ns)
{
    if (cpu != VG_NONE && run_ns > 0)
        vg_window_add_place(places, cpu, run_ns, 0);
}

const char *
vg_resource_name(enum vg_resource resource)
{
    static const char *const names[VG_RESOURCE_MAX] = {
        [VG_RESOURCE_CPU] = "cpu", [VG_RESOURCE_MEMORY] = "memory", [VG_RESOURCE_IO] = "io"};

    return names[resource];
}

static int
compare_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int
compare_vcpus(const void *a, const void *b)
{
    const struct vg_vcpu_sample *x = a, *y = b;

    return x->index != y->index ? compare_numbers(x->index, y->index)
                                : compare_numbers(x->tid, y->tid);
}

static int
compare_vms(const void *a, const void *b)
{
    const struct vg_vm_sample *x = a, *y = b;
    int by_name = strcmp(x->name, y->name);

    if (by_name != 0)
        return by_name;
    return x->pid != y->pid ? compare_numbers(x->pid, y->pid) : compare_numbers(x->id, y->id);
}

static int
compare_lost_to(const void *a, const void *b)
{
    const struct vg_lost_to *x = a, *y = b;

    if (x->ns != y->ns)
        return compare_numbers(y->ns, x->ns);
    return x->kind != y->kind ? compare_numbers(x->kind, y->kind)
                              : compare_numbers(x->vm_id, y->vm_id);
}

void
vg_window_sort_vms(struct vg_window *window)
{
    g_array_sort(window->vms, compare_vms);
}

void
vg_window_sort_vcpus(GArray *vcpus)
{
    g_array_sort(vcpus, compare_vcpus);
}

void
vg_window_sort_lost_to(GArray *lost_to)
{
    g_array_sort(lost_to, compare_lost_to);
}

static int
compare_lost_processes(const void *a, const void *b)
{
    const struct vg_lost_process *x = a, *y = b;

    if (x->ns != y->ns)
        return compare_numbers(y->ns, x->ns);
    return x->count != y->count ? (y->count > x->count) - (y->count < x->count)
                                : compare_numbers(x->pid, y->pid);
}

void
vg_window_sort_lost_processes(GArray *processes)
{
    g_array_sort(processes, compare_lost_processes);
}

const char *
vg_aggressor_name(enum vg_aggressor_kind kind)
{
    switch (kind) {
    case VG_AGGRESSOR_VM:
        return NULL;
    case VG_AGGRESSOR_SELF:
        return "self";
    case VG_AGGRESSOR_HOST_KERNEL:
        return "host:kernel";
    case VG_AGGRESSOR_HOST_USER:
        return "host:user";
    case VG_AGGRESSOR_HOST_IDLE:
        return "host:idle";
    case VG_AGGRESSOR_LIMIT:
        return "limit";
    case VG_AGGRESSOR_HOST_UNKNOWN:
        break;
    }
    return "host:unknown";
}

const char *
vg_window_aggressor(const struct vg_window *window, const struct vg_lost_to *lost)
{
    const char *name = vg_aggressor_name(lost->kind);
    const struct vg_vm_sample *vm = name ? NULL : vg_window_vm(window, lost->vm_id);

    if (name || vm)
        return name ? name : vm->name;
    for (guint i = 0; i < window->gone->len; i++) {
        const struct vg_gone_vm *gone = &g_array_index(window->gone, struct vg_gone_vm, i);
        if (gone->id == lost->vm_id)
            return gone->name;
    }
    return vg_aggressor_name(VG_AGGRESSOR_HOST_UNKNOWN);
}
