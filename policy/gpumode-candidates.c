/* SPDX-License-Identifier: Apache-2.0
 *
 * The possible settings of each platform.
 */
#include "config.h"

#include <string.h>

#include "base/error.h"
#include "policy/gpumode-private.h"

/* The types of GVT-g: type _n has weight 16 / n, and n vGPUs of it fit. */
#define GVT_WEIGHT_MIN 2
#define GVT_WEIGHT_MAX 16
#define GVT_WEIGHT_SUM 16

#define MS INT64_C(1000000)

const char *const vg_gpumode_platform_names[] = {
    [VG_GPUMODE_UNKNOWN] = "unknown",         [VG_GPUMODE_GVT_G] = "gvt-g",
    [VG_GPUMODE_NVIDIA_VGPU] = "nvidia-vgpu", [VG_GPUMODE_XE_SRIOV] = "xe-sriov",
    [VG_GPUMODE_I915_SRIOV] = "i915-sriov",   [VG_GPUMODE_AMD_GIM] = "amd-gim",
    [VG_GPUMODE_PLATFORM_MAX] = NULL,
};

const char *const vg_gpumode_price_names[] = {
    [VG_GPUMODE_LIVE] = "live",
    [VG_GPUMODE_NEEDS_EMPTY_GPU] = "needs-empty-gpu",
    [VG_GPUMODE_NEEDS_RECREATE] = "needs-recreate",
    [VG_GPUMODE_NOT_OFFERED] = "not-offered",
    [VG_GPUMODE_PRICE_MAX] = NULL,
};

/* Values to try, terminated by 0. NVIDIA accepts 1 to 30 ms, i915 and Xe whole milliseconds, GIM
 * 0.1 ms to 1 s. */
static const int64_t nvidia_timeslices[] = {1 * MS, 2 * MS, 5 * MS, 10 * MS, 30 * MS, 0};
static const int64_t sriov_quanta[] = {1 * MS, 2 * MS, 4 * MS, 8 * MS, 16 * MS, 32 * MS, 0};
static const int64_t gim_timeslices[] = {1 * MS, 2 * MS, 6 * MS, 10 * MS, 20 * MS, 0};

/* The platform's behaviour if nothing was changed. */
static const struct defaults {
    enum vg_gpusched_mode mode;
    int64_t timeslice_ns;
    int64_t quantum_ns; /* -1: the timeslice */
    bool preemptible;
} defaults[] = {
    [VG_GPUMODE_UNKNOWN] = {VG_GPUSCHED_BEST_EFFORT, 1 * MS, -1, false},
    [VG_GPUMODE_GVT_G] = {VG_GPUSCHED_GVTG, 1 * MS, -1, false},
    /* The default for up to eight vGPUs is 2 ms. */
    [VG_GPUMODE_NVIDIA_VGPU] = {VG_GPUSCHED_BEST_EFFORT, 2 * MS, -1, true},
    [VG_GPUMODE_XE_SRIOV] = {VG_GPUSCHED_QUANTUM, 1 * MS, 0, true},
    [VG_GPUMODE_I915_SRIOV] = {VG_GPUSCHED_QUANTUM, 1 * MS, 0, true},
    [VG_GPUMODE_AMD_GIM] = {VG_GPUSCHED_QUANTUM, 6 * MS, -1, true},
};

int
vg_gpumode_platform_from_name(const char *name, enum vg_gpumode_platform *ret, GError **err)
{
    for (int i = 0; i < VG_GPUMODE_PLATFORM_MAX; i++) {
        if (strcmp(vg_gpumode_platform_names[i], name) == 0) {
            *ret = (enum vg_gpumode_platform)i;
            return 0;
        }
    }
    g_autofree char *known = g_strjoinv(", ", (char **)(void *)vg_gpumode_platform_names);
    return vg_error(err, VG_E_INVALID, "platform '%s' does not exist; the platforms are %s", name,
                    known);
}

enum vg_gpumode_platform
vg_gpumode_platform_of(enum vg_gpusched_mode mode)
{
    switch (mode) {
    case VG_GPUSCHED_GVTG:
    case VG_GPUSCHED_NO_CARRY:
    case VG_GPUSCHED_WORK_CONSERVING:
        return VG_GPUMODE_GVT_G;
    case VG_GPUSCHED_BEST_EFFORT:
    case VG_GPUSCHED_EQUAL_SHARE:
    case VG_GPUSCHED_FIXED_SHARE:
        return VG_GPUMODE_NVIDIA_VGPU;
    case VG_GPUSCHED_QUANTUM:
        return VG_GPUMODE_XE_SRIOV;
    case VG_GPUSCHED_WEIGHTED:
    case VG_GPUSCHED_MODE_MAX:
        break;
    }
    return VG_GPUMODE_UNKNOWN;
}

void
vg_gpumode_set_default(struct vg_gpusched_scenario *scenario, enum vg_gpumode_platform platform)
{
    const struct defaults *is = &defaults[platform];

    scenario->mode = is->mode;
    scenario->timeslice_ns = is->timeslice_ns;
    scenario->preemptible = is->preemptible;
    for (unsigned int i = 0; i < scenario->vms->len; i++)
        ((struct vg_gpusched_vm *)scenario->vms->pdata[i])->quantum_ns = is->quantum_ns;
}

bool
vg_gpumode_preempts(const struct vg_gpusched_scenario *present, enum vg_gpumode_platform platform)
{
    return vg_gpumode_platform_of(present->mode) == platform ? present->preemptible
                                                             : defaults[platform].preemptible;
}

/* ---- candidates ---- */

void
vg_gpumode_candidate_free(void *data)
{
    struct vg_gpumode_candidate *candidate = data;

    g_array_unref(candidate->vms);
    g_free(candidate->reason);
    g_free(candidate);
}

/* Creates a candidate like the present settings, except for the mode. */
static struct vg_gpumode_candidate *
new_candidate(const struct vg_gpumode_advice *advice, enum vg_gpusched_mode mode,
              enum vg_gpumode_price price)
{
    const struct vg_gpusched_scenario *scenario = advice->scenario;
    struct vg_gpumode_candidate *candidate = g_new0(struct vg_gpumode_candidate, 1);

    candidate->mode = mode;
    candidate->timeslice_ns = scenario->timeslice_ns;
    candidate->price = price;
    candidate->vms = g_array_new(FALSE, TRUE, sizeof(struct vg_gpumode_vm));
    for (unsigned int i = 0; i < scenario->vms->len; i++) {
        const struct vg_gpusched_vm *vm = scenario->vms->pdata[i];
        const struct vg_gpumode_vm is = {.weight = vm->weight, .quantum_ns = vm->quantum_ns};
        g_array_append_val(candidate->vms, is);
    }
    return candidate;
}

static struct vg_gpumode_vm *
vm_at(const struct vg_gpumode_candidate *candidate, uint32_t vm)
{
    return &g_array_index(candidate->vms, struct vg_gpumode_vm, vm);
}

static int64_t
quantum_of(int64_t quantum_ns, int64_t timeslice_ns)
{
    return quantum_ns == -1 ? timeslice_ns : quantum_ns;
}

/* Returns whether two settings of a mode have the same effect. */
static bool
is_same(enum vg_gpusched_mode mode, const struct vg_gpumode_vm *a, int64_t a_timeslice_ns,
        const struct vg_gpumode_vm *b, int64_t b_timeslice_ns)
{
    if (mode == VG_GPUSCHED_QUANTUM)
        return quantum_of(a->quantum_ns, a_timeslice_ns) ==
               quantum_of(b->quantum_ns, b_timeslice_ns);
    if (mode <= VG_GPUSCHED_WEIGHTED) /* modes with weights and without timeslices */
        return a->weight == b->weight;
    return a_timeslice_ns == b_timeslice_ns;
}

static bool
gpumode_candidates_is_known(const struct vg_gpumode_candidate *known,
                            const struct vg_gpumode_candidate *candidate)
{
    if (known->mode != candidate->mode)
        return false;
    for (uint32_t i = 0; i < candidate->vms->len; i++) {
        if (!is_same(candidate->mode, vm_at(known, i), known->timeslice_ns, vm_at(candidate, i),
                     candidate->timeslice_ns))
            return false;
    }
    return true;
}

/* Adds the candidate, unless it equals the present settings or another candidate. */
static void
gpumode_candidates_add(struct vg_gpumode_advice *advice,
                       struct vg_gpumode_candidate *take_candidate)
{
    struct vg_gpumode_candidate *present =
        new_candidate(advice, advice->scenario->mode, VG_GPUMODE_LIVE);
    bool known = gpumode_candidates_is_known(present, take_candidate);

    vg_gpumode_candidate_free(present);
    for (unsigned int i = 0; i < advice->candidates->len && !known; i++)
        known = gpumode_candidates_is_known(advice->candidates->pdata[i], take_candidate);
    if (known)
        vg_gpumode_candidate_free(take_candidate);
    else
        g_ptr_array_add(advice->candidates, take_candidate);
}

static void
add_for_comparison(struct vg_gpumode_advice *advice, enum vg_gpusched_mode mode)
{
    gpumode_candidates_add(advice, new_candidate(advice, mode, VG_GPUMODE_NOT_OFFERED));
}

/* Returns how much of the GPU a VM wants, as far as known: it runs or waits. */
static double
demand_of(const struct vg_gpumode_advice *advice, uint32_t vm)
{
    const struct vg_gpustream_figures *now =
        &g_array_index(advice->simulated, struct vg_gpustream_figures, vm);

    return MIN(1, now->share + (double)now->wait_ns_per_s / 1e9);
}

/* ---- GVT-g ---- */

static uint32_t
weight_sum(const struct vg_gpumode_candidate *candidate)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < candidate->vms->len; i++)
        sum += vm_at(candidate, i)->weight;
    return sum;
}

/* Returns the VM with the highest demand per weight whose weight can be doubled, or -1. */
static int
neediest(const struct vg_gpumode_advice *advice, const struct vg_gpumode_candidate *candidate)
{
    uint32_t left = GVT_WEIGHT_SUM - MIN(GVT_WEIGHT_SUM, weight_sum(candidate));
    double most = 0;
    int found = -1;

    for (uint32_t i = 0; i < candidate->vms->len; i++) {
        uint32_t weight = vm_at(candidate, i)->weight;
        double need = demand_of(advice, i) / weight;
        if (weight <= left && 2 * weight <= GVT_WEIGHT_MAX && need > most) {
            most = need;
            found = (int)i;
        }
    }
    return found;
}

/* Adds the smallest types for all VMs, and doubles the neediest VM's weight while possible. */
static void
add_weights_by_demand(struct vg_gpumode_advice *advice)
{
    struct vg_gpumode_candidate *candidate =
        new_candidate(advice, VG_GPUSCHED_GVTG, VG_GPUMODE_NEEDS_RECREATE);

    for (uint32_t i = 0; i < candidate->vms->len; i++)
        vm_at(candidate, i)->weight = GVT_WEIGHT_MIN;
    for (int vm = neediest(advice, candidate); vm >= 0; vm = neediest(advice, candidate))
        vm_at(candidate, (uint32_t)vm)->weight *= 2;
    gpumode_candidates_add(advice, candidate);
}

static void
add_one_weight(struct vg_gpumode_advice *advice, uint32_t vm, uint32_t weight)
{
    struct vg_gpumode_candidate *candidate =
        new_candidate(advice, VG_GPUSCHED_GVTG, VG_GPUMODE_NEEDS_RECREATE);

    vm_at(candidate, vm)->weight = weight;
    if (weight_sum(candidate) <= GVT_WEIGHT_SUM)
        gpumode_candidates_add(advice, candidate);
    else
        vg_gpumode_candidate_free(candidate);
}

static void
add_gvt(struct vg_gpumode_advice *advice)
{
    uint32_t n = advice->scenario->vms->len;

    if (n * GVT_WEIGHT_MIN <= GVT_WEIGHT_SUM) {
        for (uint32_t vm = 0; vm < n; vm++) {
            for (uint32_t weight = GVT_WEIGHT_MIN; weight <= GVT_WEIGHT_MAX; weight *= 2)
                add_one_weight(advice, vm, weight);
        }
        add_weights_by_demand(advice);
    }
    add_for_comparison(advice, VG_GPUSCHED_NO_CARRY);
    add_for_comparison(advice, VG_GPUSCHED_WORK_CONSERVING);
}

/* ---- turns ---- */

static void
add_timeslices(struct vg_gpumode_advice *advice, enum vg_gpusched_mode mode)
{
    gpumode_candidates_add(advice, new_candidate(advice, mode, VG_GPUMODE_NEEDS_EMPTY_GPU));
    for (const int64_t *value = nvidia_timeslices; *value > 0; value++) {
        struct vg_gpumode_candidate *candidate =
            new_candidate(advice, mode, VG_GPUMODE_NEEDS_EMPTY_GPU);
        candidate->timeslice_ns = *value;
        gpumode_candidates_add(advice, candidate);
    }
}

static void
add_nvidia(struct vg_gpumode_advice *advice)
{
    gpumode_candidates_add(
        advice, new_candidate(advice, VG_GPUSCHED_BEST_EFFORT, VG_GPUMODE_NEEDS_EMPTY_GPU));
    add_timeslices(advice, VG_GPUSCHED_EQUAL_SHARE);
    add_timeslices(advice, VG_GPUSCHED_FIXED_SHARE);
}

static void
add_quantum(struct vg_gpumode_advice *advice, int64_t quantum_ns)
{
    struct vg_gpumode_candidate *candidate =
        new_candidate(advice, VG_GPUSCHED_QUANTUM, VG_GPUMODE_LIVE);

    for (uint32_t i = 0; i < candidate->vms->len; i++)
        vm_at(candidate, i)->quantum_ns = quantum_ns;
    gpumode_candidates_add(advice, candidate);
}

/* Adds quanta by demand. A round is as long as with equal quanta, and each VM gets its demand in
 * whole steps, at least one. */
static void
add_quanta_by_demand(struct vg_gpumode_advice *advice, int64_t quantum_ns, int64_t step_ns)
{
    struct vg_gpumode_candidate *candidate =
        new_candidate(advice, VG_GPUSCHED_QUANTUM, VG_GPUMODE_LIVE);
    double sum = 0;

    for (uint32_t i = 0; i < candidate->vms->len; i++)
        sum += demand_of(advice, i);
    for (uint32_t i = 0; i < candidate->vms->len && sum > 0; i++) {
        double part = demand_of(advice, i) / sum * candidate->vms->len;
        int64_t steps = (int64_t)((double)quantum_ns * part / (double)step_ns + 0.5);
        vm_at(candidate, i)->quantum_ns = MIN(MAX(1, steps) * step_ns, VG_GPUSCHED_TIMESLICE_MAX);
    }
    gpumode_candidates_add(advice, candidate);
}

static void
add_quanta(struct vg_gpumode_advice *advice, const int64_t *values, int64_t step_ns)
{
    for (const int64_t *value = values; *value > 0; value++) {
        add_quantum(advice, *value);
        add_quanta_by_demand(advice, *value, step_ns);
    }
}

void
vg_gpumode_add_candidates(struct vg_gpumode_advice *advice)
{
    switch (advice->platform) {
    case VG_GPUMODE_GVT_G:
        add_gvt(advice);
        break;
    case VG_GPUMODE_NVIDIA_VGPU:
        add_nvidia(advice);
        break;
    case VG_GPUMODE_XE_SRIOV:
    case VG_GPUMODE_I915_SRIOV:
        add_quantum(advice, 0);
        add_quanta(advice, sriov_quanta, MS);
        break;
    case VG_GPUMODE_AMD_GIM:
        add_quanta(advice, gim_timeslices, MS / 10);
        break;
    case VG_GPUMODE_UNKNOWN:
    case VG_GPUMODE_PLATFORM_MAX:
        for (int mode = 0; mode < VG_GPUSCHED_MODE_MAX; mode++)
            add_for_comparison(advice, (enum vg_gpusched_mode)mode);
        break;
    }
}
