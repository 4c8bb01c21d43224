/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/analysis-json.h"

#include "base/json.h"

static void
add_figures(json_object *object, const struct vg_cpu_figures *figures)
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
    add_figures(object, &vcpu->cpu);
    return object;
}

static json_object *
lost_to_json(const struct vg_window *window, const struct vg_lost_to *lost)
{
    json_object *object = json_object_new_object();
    const char *name = vg_aggressor_name(lost->kind);

    vg_json_add_string(object, "aggressor", name ? name : vg_window_vm(window, lost->vm_id)->name);
    vg_json_add_int64(object, "ns", lost->ns);
    vg_json_add_int64(object, "count", (int64_t)lost->count);
    if (lost->kind == VG_AGGRESSOR_VM || lost->kind == VG_AGGRESSOR_SELF) {
        vg_json_add_int64(object, "vcpu_ns", lost->vcpu_ns);
        vg_json_add_int64(object, "emulator_ns", lost->emulator_ns);
    }
    return object;
}

static json_object *
gpu_to_json(const struct vg_gpu_sample *gpu, int64_t duration_ns)
{
    json_object *object = json_object_new_object();

    vg_json_add_string(object, "device", gpu->device);
    vg_json_add_string(object, "engine", gpu->engine);
    vg_json_add_int64(object, "requests", (int64_t)gpu->requests);
    vg_json_add_int64(object, "partial", (int64_t)gpu->partial);
    vg_json_add_int64(object, "busy_ns", gpu->busy_ns);
    vg_json_add_int64(object, "exec_ns", gpu->exec_ns);
    vg_json_add_int64(object, "wait_ns", gpu->wait_ns);
    vg_json_add_double(object, "share",
                       duration_ns > 0 ? (double)gpu->busy_ns / (double)duration_ns : 0);
    vg_json_add_int64(object, "latency_p50_ns", gpu->latency_p50_ns);
    vg_json_add_int64(object, "latency_p95_ns", gpu->latency_p95_ns);
    vg_json_add_int64(object, "latency_p99_ns", gpu->latency_p99_ns);
    vg_json_add_double(object, "queue_len_avg", gpu->queue_len_avg);
    vg_json_add_int64(object, "queue_len_max", (int64_t)gpu->queue_len_max);
    return object;
}

static json_object *
gpus_to_json(const GArray *gpus, int64_t duration_ns)
{
    json_object *array = json_object_new_array();

    for (unsigned int i = 0; i < gpus->len; i++)
        vg_json_append(array,
                       gpu_to_json(&g_array_index(gpus, struct vg_gpu_sample, i), duration_ns));
    return array;
}

/* vm_class: NULL leaves the member out. */
static json_object *
vm_to_json(const struct vg_window *window, const struct vg_vm_sample *vm, const char *vm_class)
{
    json_object *object = json_object_new_object();
    json_object *vcpus = json_object_new_array();
    json_object *lost_to = json_object_new_array();
    json_object *cpus = json_object_new_array();
    int64_t duration = window->end_ns - window->begin_ns;

    vg_json_add_string(object, "name", vm->name);
    vg_json_add_string(object, "uuid", vm->uuid[0] ? vm->uuid : NULL);
    vg_json_add_int64(object, "pid", vm->pid);
    for (unsigned int i = 0; i < vm->vcpus->len; i++)
        vg_json_append(vcpus, vcpu_to_json(&g_array_index(vm->vcpus, struct vg_vcpu_sample, i)));
    vg_json_add(object, "vcpus", vcpus);
    add_figures(object, &vm->cpu);
    vg_json_add_bool(object, "guest_known", vm->guest_known);
    vg_json_add_double(object, "cpu_intensity", vg_cpu_figures_intensity(&vm->cpu));
    vg_json_add_double(object, "gpu_intensity", vg_gpu_intensity(vm->gpu_active_ns, duration));
    vg_json_add_bool(object, "gpu_known", vm->gpu_known);
    if (vm_class)
        vg_json_add_string(object, "class", vm_class);
    for (unsigned int i = 0; i < vm->cpus->len; i++)
        vg_json_append(cpus, json_object_new_int(g_array_index(vm->cpus, int32_t, i)));
    vg_json_add(object, "cpus", cpus);
    for (unsigned int i = 0; i < vm->lost_to->len; i++)
        vg_json_append(lost_to,
                       lost_to_json(window, &g_array_index(vm->lost_to, struct vg_lost_to, i)));
    vg_json_add(object, "lost_to", lost_to);
    vg_json_add(object, "gpu", gpus_to_json(vm->gpus, duration));
    return object;
}

static json_object *
tasks_to_json(const GArray *tasks)
{
    json_object *array = json_object_new_array();

    for (unsigned int i = 0; i < tasks->len; i++) {
        const struct vg_task_sample *task = &g_array_index(tasks, struct vg_task_sample, i);
        json_object *object = json_object_new_object();
        vg_json_add_int64(object, "tid", task->tid);
        if (task->pid != VG_NONE)
            vg_json_add_int64(object, "pid", task->pid);
        else
            vg_json_add(object, "pid", NULL);
        vg_json_add_string(object, "comm", task->comm);
        add_figures(object, &task->cpu);
        vg_json_append(array, object);
    }
    return array;
}

static json_object *
problems_to_json(const struct vg_trace_problems *problems)
{
    json_object *array = json_object_new_array();

    for (unsigned int i = 0; i < problems->list->len; i++) {
        const struct vg_trace_problem *problem = g_ptr_array_index(problems->list, i);
        json_object *object = json_object_new_object();
        vg_json_add_string(object, "file", problem->file);
        vg_json_add_int64(object, "offset", problem->offset);
        vg_json_add_string(object, "what", problem->what);
        vg_json_append(array, object);
    }
    return array;
}

static void
add_period(json_object *object, const vg_recording *recording, const struct vg_window *window)
{
    vg_json_add_int64(object, "begin_ns", window->begin_ns);
    vg_json_add_int64(object, "end_ns", window->end_ns);
    vg_json_add_int64(object, "clock_offset_ns", recording->clock_offset_ns);
    vg_json_add_int64(object, "lost", (int64_t)window->lost_events);
    vg_json_add_int64(object, "lost_packets", (int64_t)window->lost_packets);
    vg_json_add_int64(object, "discontinuities", (int64_t)window->discontinuities);
}

static json_object *
trace_to_json(const struct vg_analysis *analysis)
{
    const vg_recording *recording = analysis->recording;
    json_object *object = json_object_new_object();

    vg_json_add_string(object, "name", recording->name);
    add_period(object, recording, &analysis->period);
    vg_json_add_int64(object, "events", (int64_t)analysis->events);
    vg_json_add_int64(object, "rejected", (int64_t)recording->rejected);
    vg_json_add_int64(object, "backwards", (int64_t)recording->backwards);
    vg_json_add_int64(object, "cpus", analysis->cpus);
    vg_json_add(object, "problems", problems_to_json(&recording->problems));
    vg_json_add_int64(object, "problems_dropped", (int64_t)recording->problems.dropped);
    return object;
}

/* The engine knows a VM by its UUID, else by name and pid. */
static const char *
class_of(const vg_snapshot *snapshot, const char *host_name, const struct vg_vm_sample *vm)
{
    const struct vg_snap_host *host = vg_snapshot_find_host(snapshot, host_name);

    for (unsigned int i = 0; host && i < host->vms->len; i++) {
        const struct vg_snap_vm *known = g_ptr_array_index(host->vms, i);
        if (vm->uuid[0] ? g_strcmp0(known->uuid, vm->uuid) == 0 : known->pid == vm->pid)
            return vg_vm_class_names[known->vm_class];
    }
    return vg_vm_class_names[VG_CLASS_IDLE];
}

json_object *
vg_analysis_to_json(const struct vg_analysis *analysis, const vg_snapshot *snapshot,
                    const char *host)
{
    const struct vg_window *period = &analysis->period;
    json_object *doc = json_object_new_object();
    json_object *vms = json_object_new_array();

    vg_json_add(doc, "trace", trace_to_json(analysis));
    for (unsigned int i = 0; i < period->vms->len; i++) {
        const struct vg_vm_sample *vm = &g_array_index(period->vms, struct vg_vm_sample, i);
        vg_json_append(vms, vm_to_json(period, vm, class_of(snapshot, host, vm)));
    }
    vg_json_add(doc, "vms", vms);
    vg_json_add(doc, "gpus", gpus_to_json(period->gpus, period->end_ns - period->begin_ns));
    if (period->tasks)
        vg_json_add(doc, "tasks", tasks_to_json(period->tasks));
    return doc;
}

json_object *
vg_window_to_json(const vg_recording *recording, const struct vg_window *window)
{
    json_object *object = json_object_new_object();
    json_object *vms = json_object_new_array();

    add_period(object, recording, window);
    for (unsigned int i = 0; i < window->vms->len; i++)
        vg_json_append(
            vms, vm_to_json(window, &g_array_index(window->vms, struct vg_vm_sample, i), NULL));
    vg_json_add(object, "vms", vms);
    vg_json_add(object, "gpus", gpus_to_json(window->gpus, window->end_ns - window->begin_ns));
    if (window->tasks)
        vg_json_add(object, "tasks", tasks_to_json(window->tasks));
    return object;
}
