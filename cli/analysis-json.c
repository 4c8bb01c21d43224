/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/analysis-json.h"

#include "base/json.h"
#include "model/window-json.h"
#include "trace/late-cpus.h"
#include "trace/needs.h"

static void
analysis_json_mark(json_object *object)
{
    vg_json_add_bool(object, "lower_bound", true);
}

/* Marks the unknown figures of a VM or thread: they are null, or lower bounds. */
static void
analysis_json_add_lacks(json_object *object, unsigned int lacks)
{
    json_object *bounds = NULL, *lost_to = NULL;

    for (const struct vg_figure_beside *one = vg_cpu_figures_beside; one->name; one++) {
        if (vg_figure_beside_known(one, lacks) == VG_KNOWN_NOT &&
            json_object_object_get_ex(object, one->name, NULL))
            vg_json_add(object, one->name, NULL);
    }
    vg_json_add_lacks(object, lacks, NULL);
    if (json_object_object_get_ex(object, "bounds", &bounds))
        analysis_json_mark(object);
    json_object_object_get_ex(object, "lost_to", &lost_to);
    if (lacks & VG_CPU_NO_WAKEUPS && json_object_is_type(lost_to, json_type_array)) {
        for (size_t i = 0; i < json_object_array_length(lost_to); i++)
            analysis_json_mark(json_object_array_get_idx(lost_to, i));
    }
}

/* vm_class is NULL to omit the member. */
static json_object *
vm_to_json(const struct vg_window *window, const struct vg_vm_sample *vm, const char *vm_class)
{
    json_object *object = json_object_new_object();
    int64_t duration = window->end_ns - window->begin_ns;
    const unsigned int lacks = vg_vm_sample_lacks(vm);

    vg_json_add_string(object, "name", vm->name);
    vg_json_add_string(object, "uuid", vm->uuid[0] ? vm->uuid : NULL);
    vg_json_add_int64(object, "pid", vm->pid);
    vg_json_add(object, "vcpus", vg_vcpus_to_json(vm->vcpus, lacks));
    vg_json_add_figures(object, &vm->cpu, lacks);
    vg_json_add_bool(object, "guest_known", vm->guest_known);
    vg_json_add_double(object, "cpu_intensity", vg_cpu_figures_intensity(&vm->cpu));
    if (vm->gpu_known)
        vg_json_add_double(object, "gpu_intensity", vg_gpu_intensity(vm->gpu_active_ns, duration));
    else
        vg_json_add(object, "gpu_intensity", NULL);
    vg_json_add_bool(object, "gpu_known", vm->gpu_known);
    vg_json_add_double(object, "confidence", window->confidence);
    if (vm_class)
        vg_json_add_string(object, "class", vm_class);
    vg_json_add(object, "cpus", vg_cpus_to_json(vm->cpus));
    vg_json_add(object, "lost_to", vg_losses_to_json(window, vm->lost_to));
    vg_json_add(object, "gpu", vg_gpus_to_json(vm->gpus, duration));
    analysis_json_add_lacks(object, lacks);
    return object;
}

static json_object *
tasks_to_json(const GArray *tasks, unsigned int lacks)
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
        vg_json_add_figures(object, &task->cpu, lacks);
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
    vg_json_add_double(object, "confidence", window->confidence);
}

/* Adds the period for which all CPUs have records, and the CPUs whose records start late. */
static void
add_coverage(json_object *object, const vg_recording *recording, const struct vg_window *period)
{
    json_object *covered = json_object_new_object();
    json_object *late = json_object_new_array();
    int64_t covered_ns = vg_late_cpus_covered_ns(recording->late);

    vg_json_add_int64(covered, "begin",
                      covered_ns == VG_TIME_UNKNOWN ? period->begin_ns
                                                    : MAX(period->begin_ns, covered_ns));
    vg_json_add_int64(covered, "end", period->end_ns);
    vg_json_add(object, "covered_ns", covered);
    for (guint i = 0; i < recording->late->len; i++)
        vg_json_append(
            late, json_object_new_int(g_array_index(recording->late, struct vg_late_cpu, i).cpu));
    vg_json_add(object, "late_cpus", late);
}

/* Lists events that were not recorded, and the VM figures that are unknown without them. */
static json_object *
analysis_json_missing(const struct vg_analysis *analysis)
{
    json_object *array = json_object_new_array();
    const struct vg_adapter_need *need;

    for (size_t i = 0; (need = vg_needs_at(i)); i++) {
        if (!vg_analysis_misses(analysis, need))
            continue;
        json_object *object = json_object_new_object();
        vg_json_add_string(object, "event", need->event);
        vg_json_add_lacks(object, need->lack, NULL);
        vg_json_append(array, object);
    }
    return array;
}

static json_object *
trace_to_json(const struct vg_analysis *analysis)
{
    const vg_recording *recording = analysis->recording;
    json_object *object = json_object_new_object();

    vg_json_add_string(object, "name", recording->name);
    add_period(object, recording, &analysis->period);
    add_coverage(object, recording, &analysis->period);
    vg_json_add_int64(object, "events", (int64_t)analysis->events);
    vg_json_add_int64(object, "rejected", (int64_t)recording->rejected);
    vg_json_add_int64(object, "backwards", (int64_t)recording->backwards);
    vg_json_add_int64(object, "cpus", analysis->cpus);
    json_object *missing = analysis_json_missing(analysis);
    if (json_object_array_length(missing) > 0)
        vg_json_add(object, "missing", missing);
    else
        json_object_put(missing);
    if (analysis->absent_cpus->len > 0)
        vg_json_add(object, "absent_cpus", vg_cpus_to_json(analysis->absent_cpus));
    vg_json_add(object, "problems", problems_to_json(&recording->problems));
    vg_json_add_int64(object, "problems_dropped", (int64_t)recording->problems.dropped);
    return object;
}

/* The engine identifies a VM by its UUID, or otherwise by its name and pid. */
static const char *
analysis_json_class_of(const vg_snapshot *snapshot, const char *host_name,
                       const struct vg_vm_sample *vm)
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
        vg_json_append(vms, vm_to_json(period, vm, analysis_json_class_of(snapshot, host, vm)));
    }
    vg_json_add(doc, "vms", vms);
    vg_json_add(doc, "gpus", vg_gpus_to_json(period->gpus, period->end_ns - period->begin_ns));
    vg_json_add(doc, "gpu_processes",
                vg_gpu_processes_to_json(period->gpu_processes, period->end_ns - period->begin_ns));
    if (period->tasks)
        vg_json_add(doc, "tasks", tasks_to_json(period->tasks, period->lacks));
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
    vg_json_add(object, "gpus", vg_gpus_to_json(window->gpus, window->end_ns - window->begin_ns));
    vg_json_add(object, "gpu_processes",
                vg_gpu_processes_to_json(window->gpu_processes, window->end_ns - window->begin_ns));
    if (window->tasks)
        vg_json_add(object, "tasks", tasks_to_json(window->tasks, window->lacks));
    return object;
}
