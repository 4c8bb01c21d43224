/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/simulate-json.h"

#include "base/json.h"

/* The simulated result and its names. */
struct source {
    const struct vg_gpusched_result *result;
    const char *device;
    const GPtrArray *engines; /* NULL for the simulator's names */
};

static const char *
engine_name(const struct source *source, uint8_t engine)
{
    return source->engines ? source->engines->pdata[engine]
                           : vg_gpusched_engine_names[source->result->engines[engine]];
}

static json_object *
figures_to_json(const struct source *source, const struct vg_gpusched_figures *figures)
{
    json_object *object = json_object_new_object();

    vg_json_add_string(object, "device", source->device);
    vg_json_add_string(object, "engine", engine_name(source, figures->engine));
    vg_json_add_int64(object, "requests", (int64_t)figures->requests);
    vg_json_add_int64(object, "partial", (int64_t)figures->partial);
    vg_json_add_int64(object, "dropped", (int64_t)figures->dropped);
    vg_json_add_int64(object, "busy_ns", figures->busy_ns);
    vg_json_add_int64(object, "exec_ns", figures->exec_ns);
    vg_json_add_int64(object, "wait_ns", figures->wait_ns);
    vg_json_add_double(object, "share", figures->share);
    vg_json_add_int64(object, "latency_mean_ns", figures->latency_mean_ns);
    vg_json_add_int64(object, "latency_p50_ns", figures->latency_p50_ns);
    vg_json_add_int64(object, "latency_p95_ns", figures->latency_p95_ns);
    vg_json_add_int64(object, "latency_p99_ns", figures->latency_p99_ns);
    vg_json_add_int64(object, "latency_max_ns", figures->latency_max_ns);
    vg_json_add_double(object, "queue_len_avg", figures->queue_len_avg);
    vg_json_add_int64(object, "queue_len_max", (int64_t)figures->queue_len_max);
    return object;
}

static json_object *
all_to_json(const struct source *source, const GArray *all)
{
    json_object *array = json_object_new_array();

    for (unsigned int i = 0; i < all->len; i++)
        vg_json_append(array,
                       figures_to_json(source, &g_array_index(all, struct vg_gpusched_figures, i)));
    return array;
}

static json_object *
to_json(const struct source *source)
{
    const struct vg_gpusched_result *result = source->result;
    json_object *doc = json_object_new_object();
    json_object *vms = json_object_new_array();

    for (unsigned int i = 0; i < result->vms->len; i++) {
        const struct vg_gpusched_vm_result *vm = result->vms->pdata[i];
        json_object *object = json_object_new_object();
        vg_json_add_string(object, "name", vm->name);
        vg_json_add(object, "gpu", all_to_json(source, vm->gpu));
        vg_json_append(vms, object);
    }
    vg_json_add(doc, "vms", vms);
    vg_json_add(doc, "gpus", all_to_json(source, result->gpus));
    vg_json_add_string(doc, "mode", vg_gpusched_mode_names[result->mode]);
    vg_json_add_string(doc, "generation", vg_gpusched_generation_names[result->generation]);
    vg_json_add_int64(doc, "seed", (int64_t)result->seed);
    vg_json_add_int64(doc, "duration_ns", result->duration_ns);
    return doc;
}

json_object *
vg_simulation_to_json(const struct vg_gpusched_result *result)
{
    const struct source source = {result, VG_GPUSCHED_DEVICE, NULL};

    return to_json(&source);
}

json_object *
vg_simulation_to_json_of(const struct vg_gpusched_result *result, const char *device,
                         const GPtrArray *engines)
{
    const struct source source = {result, device, engines};

    return to_json(&source);
}
