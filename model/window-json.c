/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/window-json.h"

#include "base/json.h"

/* Returns a figure of the struct at values, for a period of this length. */
static json_object *
window_json_figure(const struct vg_figure *figure, const char *values, int64_t duration_ns)
{
    const void *at = values + figure->offset;

    if (figure->unit == VG_FIGURE_RATIO)
        return json_object_new_double(*(const double *)at);
    const int64_t value = *(const int64_t *)at;
    if (figure->unit == VG_FIGURE_SHARE)
        return json_object_new_double(duration_ns > 0 ? (double)value / (double)duration_ns : 0);
    const void *less = values + figure->less;
    return json_object_new_int64(figure->less > 0 ? value - *(const int64_t *)less : value);
}

/* Adds a figure if it is known. */
static void
window_json_add_figure(json_object *object, const struct vg_figure *figure, const void *values,
                       int64_t duration_ns, unsigned int lacks)
{
    const bool known = vg_figure_known(figure, lacks) != VG_KNOWN_NOT;

    if (known || !figure->is_optional)
        vg_json_add(object, figure->name,
                    known ? window_json_figure(figure, values, duration_ns) : NULL);
}

void
vg_json_add_figures(json_object *object, const struct vg_cpu_figures *figures, unsigned int lacks)
{
    json_object *exits = json_object_new_object();

    for (size_t i = 0; i < vg_cpu_figure_rows_size; i++)
        window_json_add_figure(object, &vg_cpu_figure_rows[i], figures, 0, lacks);
    if (lacks & VG_CPU_NO_EXITS) {
        vg_json_add(object, "exits", NULL);
        json_object_put(exits);
        return;
    }
    for (int i = 0; i < VG_EXIT_CLASS_MAX; i++) {
        if (figures->exits[i] > 0)
            vg_json_add_int64(exits, vg_exit_class_name((enum vg_exit_class)i),
                              (int64_t)figures->exits[i]);
    }
    vg_json_add(object, "exits", exits);
}

static json_object *
window_json_names(const GPtrArray *names)
{
    json_object *array = json_object_new_array();

    for (guint i = 0; i < names->len; i++)
        vg_json_append(array, json_object_new_string(names->pdata[i]));
    return array;
}

void
vg_json_add_lacks(json_object *object, unsigned int lacks, const struct vg_figure_beside *more)
{
    g_autoptr(GPtrArray) unknown = vg_figure_names(lacks, VG_KNOWN_NOT);
    g_autoptr(GPtrArray) bounds = vg_figure_names(lacks, VG_KNOWN_BOUND);

    for (; more && more->name; more++) {
        const enum vg_known known = vg_figure_beside_known(more, lacks);
        if (known != VG_KNOWN)
            g_ptr_array_add(known == VG_KNOWN_NOT ? unknown : bounds, (void *)more->name);
    }
    if (unknown->len > 0)
        vg_json_add(object, "unknown", window_json_names(unknown));
    if (bounds->len > 0)
        vg_json_add(object, "bounds", window_json_names(bounds));
}

static json_object *
vcpu_to_json(const struct vg_vcpu_sample *vcpu, unsigned int lacks)
{
    json_object *object = json_object_new_object();

    vg_json_add_int64(object, "tid", vcpu->tid);
    if (vcpu->index != VG_NONE)
        vg_json_add_int64(object, "vcpu", vcpu->index);
    vg_json_add_figures(object, &vcpu->cpu, lacks);
    return object;
}

json_object *
vg_vcpus_to_json(const GArray *vcpus, unsigned int lacks)
{
    json_object *array = json_object_new_array();

    for (unsigned int i = 0; i < vcpus->len; i++)
        vg_json_append(array, vcpu_to_json(&g_array_index(vcpus, struct vg_vcpu_sample, i), lacks));
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

static unsigned int
window_json_lacks(const struct vg_gpu_sample *gpu)
{
    return gpu->lacks | (gpu->latency_max_ns > 0 ? 0 : VG_GPU_NO_ENDS) |
           (gpu->contexts > 0 ? 0 : VG_GPU_NO_CONTEXTS);
}

void
vg_json_add_gpu_use(json_object *object, const struct vg_gpu_sample *gpu, int64_t duration_ns)
{
    static const enum vg_gpu_figure figures[] = {
        VG_GPU_FIGURE_share,    VG_GPU_FIGURE_busy_ns,  VG_GPU_FIGURE_exec_ns,
        VG_GPU_FIGURE_wait_ns,  VG_GPU_FIGURE_requests, VG_GPU_FIGURE_mem_bytes,
        VG_GPU_FIGURE_contexts,
    };

    for (size_t i = 0; i < G_N_ELEMENTS(figures); i++)
        window_json_add_figure(object, &vg_gpu_figure_rows[figures[i]], gpu, duration_ns,
                               window_json_lacks(gpu));
}

json_object *
vg_gpu_to_json(const struct vg_gpu_sample *gpu, int64_t duration_ns)
{
    json_object *object = json_object_new_object();

    vg_json_add_string(object, "device", gpu->device);
    vg_json_add_string(object, "engine", gpu->engine);
    for (size_t i = 0; i < vg_gpu_figure_rows_size; i++)
        window_json_add_figure(object, &vg_gpu_figure_rows[i], gpu, duration_ns,
                               window_json_lacks(gpu));
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
