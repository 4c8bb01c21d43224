/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/window-json.h"

#include "base/json.h"

void
vg_json_add_figures(json_object *object, const struct vg_cpu_figures *figures)
{
    json_object *exits = json_object_new_object();

    vg_json_add_int64(object, "observed_ns", figures->observed_ns);
    vg_json_add_int64(object, "run_ns", figures->run_ns);
    vg_json_add_int64(object, "entries", (int64_t)figures->entries);
    vg_json_add_int64(object, "guest_ns", figures->guest_ns);
    vg_json_add_int64(object, "hyp_ns", vg_cpu_figures_hyp_ns(figures));
    vg_json_add_int64(object, "preempt_ns", figures->preempt_ns);
    vg_json_add_int64(object, "preemptions", (int64_t)figures->preemptions);
    vg_json_add_int64(object, "wake_wait_ns", figures->wake_wait_ns);
    vg_json_add_int64(object, "wakeups", (int64_t)figures->wakeups);
    vg_json_add_int64(object, "blocked_ns", figures->blocked_ns);
    vg_json_add_int64(object, "blocks", (int64_t)figures->blocks);
    vg_json_add_int64(object, "switches_out", (int64_t)figures->switches_out);
    vg_json_add_int64(object, "unseen_migrations", (int64_t)figures->unseen_migrations);
    vg_json_add_int64(object, "clipped", (int64_t)figures->clipped);
    for (int i = 0; i < VG_EXIT_CLASS_MAX; i++) {
        if (figures->exits[i] > 0)
            vg_json_add_int64(exits, vg_exit_class_name((enum vg_exit_class)i),
                              (int64_t)figures->exits[i]);
    }
    vg_json_add(object, "exits", exits);
}

static json_object *
vcpu_to_json(const struct vg_vcpu_sample *vcpu)
{
    json_object *object = json_object_new_object();

    vg_json_add_int64(object, "tid", vcpu->tid);
    if (vcpu->index != VG_NONE)
        vg_json_add_int64(object, "vcpu", vcpu->index);
    vg_json_add_figures(object, &vcpu->cpu);
    return object;
}

json_object *
vg_vcpus_to_json(const GArray *vcpus)
{
    json_object *array = json_object_new_array();

    for (unsigned int i = 0; i < vcpus->len; i++)
        vg_json_append(array, vcpu_to_json(&g_array_index(vcpus, struct vg_vcpu_sample, i)));
    return array;
}

static json_object *
loss_to_json(const struct vg_window *window, const struct vg_lost_to *lost)
{
    json_object *object = json_object_new_object();

    vg_json_add_string(object, "aggressor", vg_window_aggressor(window, lost));
    vg_json_add_int64(object, "ns", lost->ns);
    vg_json_add_int64(object, "count", (int64_t)lost->count);
    if (lost->kind == VG_AGGRESSOR_VM || lost->kind == VG_AGGRESSOR_SELF) {
        vg_json_add_int64(object, "vcpu_ns", lost->vcpu_ns);
        vg_json_add_int64(object, "emulator_ns", lost->emulator_ns);
    }
    return object;
}

json_object *
vg_losses_to_json(const struct vg_window *window, const GArray *lost_to)
{
    json_object *array = json_object_new_array();

    for (unsigned int i = 0; i < lost_to->len; i++)
        vg_json_append(array, loss_to_json(window, &g_array_index(lost_to, struct vg_lost_to, i)));
    return array;
}

json_object *
vg_cpus_to_json(const GArray *cpus)
{
    json_object *array = json_object_new_array();

    for (unsigned int i = 0; i < cpus->len; i++)
        vg_json_append(array, json_object_new_int(g_array_index(cpus, int32_t, i)));
    return array;
}

/* Adds a figure; null: nobody can tell it. */
static void
window_json_add_known(json_object *object, const char *name, int64_t value, bool known)
{
    vg_json_add(object, name, known ? json_object_new_int64(value) : NULL);
}

void
vg_gpu_work_to_json(json_object *object, const struct vg_gpu_sample *gpu, int64_t duration_ns)
{
    const bool known = !(gpu->lacks & VG_GPU_NO_WORK);
    const double share = duration_ns > 0 ? (double)gpu->busy_ns / (double)duration_ns : 0;

    vg_json_add(object, "share", known ? json_object_new_double(share) : NULL);
    window_json_add_known(object, "busy_ns", gpu->busy_ns, known);
    window_json_add_known(object, "exec_ns", gpu->exec_ns, known);
}

void
vg_gpu_requests_to_json(json_object *object, const struct vg_gpu_sample *gpu)
{
    const bool known = !(gpu->lacks & VG_GPU_NO_REQUESTS);

    window_json_add_known(object, "wait_ns", gpu->wait_ns, known);
    window_json_add_known(object, "requests", (int64_t)gpu->requests, known);
    window_json_add_known(object, "mem_bytes", gpu->mem_bytes, !(gpu->lacks & VG_GPU_NO_MEMORY));
}

static void
window_json_add_latencies(json_object *object, const struct vg_gpu_sample *gpu)
{
    const bool known = gpu->latency_max_ns > 0;

    window_json_add_known(object, "latency_mean_ns", gpu->latency_mean_ns, known);
    window_json_add_known(object, "latency_p50_ns", gpu->latency_p50_ns, known);
    window_json_add_known(object, "latency_p95_ns", gpu->latency_p95_ns, known);
    window_json_add_known(object, "latency_p99_ns", gpu->latency_p99_ns, known);
    window_json_add_known(object, "latency_max_ns", gpu->latency_max_ns, known);
}

json_object *
vg_gpu_to_json(const struct vg_gpu_sample *gpu, int64_t duration_ns)
{
    json_object *object = json_object_new_object();
    const bool requests = !(gpu->lacks & VG_GPU_NO_REQUESTS);
    const bool details = !(gpu->lacks & VG_GPU_NO_DETAILS);
    const bool memory = !(gpu->lacks & VG_GPU_NO_MEMORY);

    vg_json_add_string(object, "device", gpu->device);
    vg_json_add_string(object, "engine", gpu->engine);
    window_json_add_known(object, "requests", (int64_t)gpu->requests, requests);
    window_json_add_known(object, "partial", (int64_t)gpu->partial, details);
    window_json_add_known(object, "wait_ns", gpu->wait_ns, requests);
    vg_gpu_work_to_json(object, gpu, duration_ns);
    window_json_add_known(object, "vgpu_queue_ns", gpu->vgpu_queue_ns, details);
    window_json_add_known(object, "dependency_ns", gpu->dependency_ns, details);
    window_json_add_known(object, "driver_queue_ns", gpu->driver_queue_ns, details);
    window_json_add_latencies(object, gpu);
    vg_json_add(object, "queue_len_avg",
                requests ? json_object_new_double(gpu->queue_len_avg) : NULL);
    window_json_add_known(object, "queue_len_max", (int64_t)gpu->queue_len_max, details);
    window_json_add_known(object, "coalesced", (int64_t)gpu->coalesced, details);
    window_json_add_known(object, "mem_bytes", gpu->mem_bytes, memory);
    window_json_add_known(object, "mem_peak_bytes", gpu->mem_peak_bytes, memory);
    if (gpu->contexts > 0)
        vg_json_add_int64(object, "contexts", gpu->contexts);
    window_json_add_known(object, "slices", (int64_t)gpu->slices, !(gpu->lacks & VG_GPU_NO_SLICES));
    window_json_add_known(object, "suspended_ns", gpu->suspended_ns,
                          !(gpu->lacks & VG_GPU_NO_SUSPENSIONS));
    vg_json_add_double(object, "confidence", gpu->confidence);
    return object;
}

json_object *
vg_gpu_process_to_json(const struct vg_gpu_process_sample *process, int64_t duration_ns)
{
    json_object *object = vg_gpu_to_json(&process->gpu, duration_ns);

    vg_json_add_int64(object, "pid", process->pid);
    vg_json_add_string(object, "comm", process->comm);
    return object;
}

json_object *
vg_gpu_processes_to_json(const GArray *processes, int64_t duration_ns)
{
    json_object *array = json_object_new_array();

    for (unsigned int i = 0; i < processes->len; i++)
        vg_json_append(
            array, vg_gpu_process_to_json(
                       &g_array_index(processes, struct vg_gpu_process_sample, i), duration_ns));
    return array;
}

json_object *
vg_gpus_to_json(const GArray *gpus, int64_t duration_ns)
{
    json_object *array = json_object_new_array();

    for (unsigned int i = 0; i < gpus->len; i++)
        vg_json_append(array,
                       vg_gpu_to_json(&g_array_index(gpus, struct vg_gpu_sample, i), duration_ns));
    return array;
}
