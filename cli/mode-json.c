/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "cli/mode-json.h"

#include "base/json.h"

static json_object *
figures_to_json(const struct vg_gpustream_figures *figures)
{
    json_object *object = json_object_new_object();

    vg_json_add_int64(object, "requests", (int64_t)figures->requests);
    vg_json_add_double(object, "requests_per_s", figures->requests_per_s);
    vg_json_add_double(object, "share", figures->share);
    vg_json_add_int64(object, "wait_ns_per_s", figures->wait_ns_per_s);
    vg_json_add_int64(object, "latency_mean_ns", figures->latency_mean_ns);
    vg_json_add_int64(object, "latency_p50_ns", figures->latency_p50_ns);
    vg_json_add_int64(object, "latency_p95_ns", figures->latency_p95_ns);
    vg_json_add_int64(object, "latency_p99_ns", figures->latency_p99_ns);
    return object;
}

static const struct vg_gpusched_vm *
vm_at(const struct vg_gpumode_advice *advice, uint32_t vm)
{
    return advice->scenario->vms->pdata[vm];
}

static json_object *
all_figures(const struct vg_gpumode_advice *advice, const GArray *all)
{
    json_object *array = json_object_new_array();

    for (unsigned int i = 0; i < all->len; i++) {
        json_object *object = figures_to_json(&g_array_index(all, struct vg_gpustream_figures, i));
        vg_json_add_string(object, "name", vm_at(advice, i)->name);
        vg_json_append(array, object);
    }
    return array;
}

/* Lists the VM's parameters of the mode. */
static json_object *
vm_parameters(const struct vg_gpusched_vm *vm, enum vg_gpusched_mode mode, uint32_t weight,
              int64_t quantum_ns)
{
    json_object *object = json_object_new_object();

    vg_json_add_string(object, "name", vm->name);
    if (mode <= VG_GPUSCHED_WEIGHTED)
        vg_json_add_int64(object, "weight", weight);
    if (mode == VG_GPUSCHED_QUANTUM)
        vg_json_add_int64(object, "quantum_ns", quantum_ns);
    if (mode == VG_GPUSCHED_FIXED_SHARE && vm->share > 0)
        vg_json_add_double(object, "share", vm->share);
    return object;
}

/* vms is an array of struct vg_gpumode_vm, or NULL for the current values. */
static json_object *
parameters(const struct vg_gpumode_advice *advice, enum vg_gpusched_mode mode, int64_t timeslice_ns,
           const GArray *vms)
{
    json_object *object = json_object_new_object();
    json_object *array = json_object_new_array();

    if (mode > VG_GPUSCHED_WEIGHTED && mode != VG_GPUSCHED_QUANTUM)
        vg_json_add_int64(object, "timeslice_ns", timeslice_ns);
    for (unsigned int i = 0; i < advice->scenario->vms->len; i++) {
        const struct vg_gpusched_vm *vm = vm_at(advice, i);
        const struct vg_gpumode_vm *is = vms ? &g_array_index(vms, struct vg_gpumode_vm, i) : NULL;
        int64_t quantum_ns = is ? is->quantum_ns : vm->quantum_ns;
        vg_json_append(array, vm_parameters(vm, mode, is ? is->weight : vm->weight,
                                            quantum_ns == -1 ? timeslice_ns : quantum_ns));
    }
    vg_json_add(object, "vms", array);
    return object;
}

static json_object *
candidate_vms(const struct vg_gpumode_advice *advice, const struct vg_gpumode_candidate *candidate)
{
    json_object *array = json_object_new_array();

    for (unsigned int i = 0; i < candidate->vms->len; i++) {
        json_object *object = json_object_new_object();
        vg_json_add_string(object, "name", vm_at(advice, i)->name);
        vg_json_add(
            object, "now",
            figures_to_json(&g_array_index(advice->simulated, struct vg_gpustream_figures, i)));
        vg_json_add(object, "then",
                    figures_to_json(&g_array_index(candidate->vms, struct vg_gpumode_vm, i).then));
        vg_json_append(array, object);
    }
    return array;
}

static json_object *
candidate_to_json(const struct vg_gpumode_advice *advice,
                  const struct vg_gpumode_candidate *candidate)
{
    json_object *object = json_object_new_object();

    vg_json_add_string(object, "mode", vg_gpusched_mode_names[candidate->mode]);
    vg_json_add(object, "parameters",
                parameters(advice, candidate->mode, candidate->timeslice_ns, candidate->vms));
    vg_json_add_string(object, "price", vg_gpumode_price_names[candidate->price]);
    vg_json_add(object, "vms", candidate_vms(advice, candidate));
    vg_json_add_int64(object, "gain_wait_ns_per_s", candidate->gain_wait_ns_per_s);
    vg_json_add_string(object, "worst_vm", vm_at(advice, candidate->worst_vm)->name);
    vg_json_add_int64(object, "worst_p95_change_ns", candidate->worst_p95_change_ns);
    vg_json_add_bool(object, "proposed", candidate->proposed);
    vg_json_add_string(object, "reason", candidate->reason);
    return object;
}

static json_object *
present_to_json(const struct vg_gpumode_advice *advice)
{
    const struct vg_gpusched_scenario *scenario = advice->scenario;
    json_object *object = json_object_new_object();

    vg_json_add_string(object, "mode", vg_gpusched_mode_names[scenario->mode]);
    vg_json_add(object, "parameters",
                parameters(advice, scenario->mode, scenario->timeslice_ns, NULL));
    vg_json_add(object, "measured", all_figures(advice, advice->measured));
    vg_json_add(object, "simulated", all_figures(advice, advice->simulated));
    vg_json_add_double(object, "error", advice->error);
    return object;
}

json_object *
vg_mode_advice_to_json(const struct vg_gpumode_advice *advice, const char *device,
                       const GPtrArray *notes)
{
    json_object *doc = json_object_new_object();
    json_object *candidates = json_object_new_array();
    json_object *texts = json_object_new_array();

    for (unsigned int i = 0; i < advice->candidates->len; i++)
        vg_json_append(candidates, candidate_to_json(advice, advice->candidates->pdata[i]));
    for (unsigned int i = 0; notes && i < notes->len; i++)
        vg_json_append(texts, vg_json_new_string(notes->pdata[i]));
    vg_json_add_string(doc, "device", device);
    vg_json_add_string(doc, "platform", vg_gpumode_platform_names[advice->platform]);
    vg_json_add_int64(doc, "duration_ns", advice->scenario->duration_ns);
    vg_json_add(doc, "present", present_to_json(advice));
    vg_json_add(doc, "candidates", candidates);
    vg_json_add_string(doc, "why", advice->why);
    vg_json_add(doc, "notes", texts);
    return doc;
}
