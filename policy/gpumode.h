/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides whether another mode of the GPU's scheduler would be better for its VMs. Each mode that
 * the platform offers is simulated with the same requests as the present mode. The decision depends
 * on gain and cost. It is normal that no mode is better. Pure; one thread at a time.
 *
 * How modes can be changed (sources in vgpud-policy(7)):
 *
 *   - gvt-g: not at run time. The weight belongs to the mdev type (16 / n for type _n), so the
 *     vGPU must be created again. Two variants that were never merged are simulated for
 *     comparison: without carry-over, and with work conservation.
 *   - nvidia-vgpu: policy and timeslice of a GPU, while it has no vGPU.
 *   - xe-sriov, i915-sriov: the execution quantum of each VF, at any time; 0 is unlimited.
 *   - amd-gim: the timeslice of each VF, at any time.
 *   - unknown: offers nothing; all modes are simulated for comparison.
 */
#ifndef VG_POLICY_GPUMODE_H
#define VG_POLICY_GPUMODE_H

#include "policy/gpusched.h"
#include "policy/gpustream.h"
#include "policy/policy-conf.h"

enum vg_gpumode_platform {
    VG_GPUMODE_UNKNOWN,
    VG_GPUMODE_GVT_G,
    VG_GPUMODE_NVIDIA_VGPU,
    VG_GPUMODE_XE_SRIOV,
    VG_GPUMODE_I915_SRIOV,
    VG_GPUMODE_AMD_GIM,
    VG_GPUMODE_PLATFORM_MAX
};

/* The price of a change of mode. */
enum vg_gpumode_price {
    VG_GPUMODE_LIVE,
    VG_GPUMODE_NEEDS_EMPTY_GPU,
    VG_GPUMODE_NEEDS_RECREATE,
    VG_GPUMODE_NOT_OFFERED, /* simulated for comparison */
    VG_GPUMODE_PRICE_MAX
};

extern const char *const vg_gpumode_platform_names[]; /* ends with NULL; the same holds below */
extern const char *const vg_gpumode_price_names[];

/* Fails with VG_E_INVALID and the names of all platforms. */
int vg_gpumode_platform_from_name(const char *name, enum vg_gpumode_platform *ret,
                                  GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Returns the platform that has this mode. */
enum vg_gpumode_platform vg_gpumode_platform_of(enum vg_gpusched_mode mode);

/* Sets mode, timeslice, quanta and preemption to the platform's defaults. */
void vg_gpumode_set_default(struct vg_gpusched_scenario *scenario,
                            enum vg_gpumode_platform platform);

/* The parameters of a VM; the mode ignores those that it does not use. */
struct vg_gpumode_vm {
    uint32_t weight;
    int64_t quantum_ns;               /* as in struct vg_gpusched_vm */
    struct vg_gpustream_figures then; /* 0 if the simulation failed */
};

struct vg_gpumode_candidate {
    enum vg_gpusched_mode mode;
    int64_t timeslice_ns;
    enum vg_gpumode_price price;
    GArray *vms; /* struct vg_gpumode_vm, as in the scenario */
    int64_t gain_wait_ns_per_s;
    /* The VM whose p95 latency rises most or falls least, relative to its present value. */
    uint32_t worst_vm;
    int64_t worst_p95_change_ns;
    bool proposed;
    char *reason; /* why it is or is not proposed */
};

struct vg_gpumode_advice {
    enum vg_gpumode_platform platform;
    const struct vg_gpusched_scenario *scenario; /* borrowed; the present mode and the VMs */
    GArray *measured;                            /* struct vg_gpustream_figures, for each VM */
    GArray *simulated;                           /* the same for the present mode */
    /* Largest relative error of the simulation in a VM's requests per second or mean latency; NaN
     * if no VM has enough requests. */
    double error;
    GPtrArray *candidates; /* struct vg_gpumode_candidate, sorted by modes and parameters */
    char *why;             /* one sentence about the proposal, or why there is none */
};

/* Creates the advice. The scenario is in the present mode, and must outlive the advice. measured
 * has a struct vg_gpustream_figures for each VM. If it is NULL, only the scenario is known, and its
 * simulation counts as the present state. Fails with VG_E_INVALID if the scenario cannot be
 * simulated in its present mode. */
struct vg_gpumode_advice *vg_gpumode_advise(const struct vg_gpusched_scenario *scenario,
                                            enum vg_gpumode_platform platform,
                                            const GArray *measured,
                                            const struct vg_gpumode_config *config, GError **err);
void vg_gpumode_advice_free(struct vg_gpumode_advice *advice);

typedef struct vg_gpumode_advice vg_gpumode_advice;
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_gpumode_advice, vg_gpumode_advice_free)

#endif
