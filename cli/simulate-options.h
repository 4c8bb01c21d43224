/* SPDX-License-Identifier: Apache-2.0
 *
 * The GPU options of `vgpuctl simulate`: the GPU, and how it is shared at present.
 */
#ifndef VG_CLI_SIMULATE_OPTIONS_H
#define VG_CLI_SIMULATE_OPTIONS_H

#include <argp.h>

#include "policy/gpumode.h"

struct vg_simulate_options {
    const char *device; /* NULL if not given */
    bool has_platform;
    enum vg_gpumode_platform platform;
    bool has_present;
    enum vg_gpusched_mode present;
    int64_t timeslice_ns; /* -1 if not given; 0 for unlimited turns */
    GPtrArray *weights;   /* char *, "VM=N", borrowed from argv */
};

/* Child parser for argp; its input is a struct vg_simulate_options that vg_simulate_options_init()
 * prepared. */
extern const struct argp vg_simulate_argp;

void vg_simulate_options_init(struct vg_simulate_options *options);
void vg_simulate_options_clear(struct vg_simulate_options *options);

/* Returns the first given option that describes how the GPU is shared, or NULL. */
const char *vg_simulate_options_given(const struct vg_simulate_options *options);

/* Returns NULL if not found. */
struct vg_gpusched_vm *vg_simulate_find_vm(const struct vg_gpusched_scenario *scenario,
                                           const char *name);

/* Adds a VM that has existed for a long time. */
struct vg_gpusched_vm *vg_simulate_add_vm(struct vg_gpusched_scenario *scenario, const char *name);

/* may_add: a VM that the scenario does not have is added without work; otherwise fails with
 * VG_E_NOT_FOUND. */
int vg_simulate_set_weights(struct vg_gpusched_scenario *scenario,
                            const struct vg_simulate_options *options, bool may_add,
                            GError **err) G_GNUC_WARN_UNUSED_RESULT;

/* Sets mode, turns and weights of the existing VMs. */
int vg_simulate_set_present(struct vg_gpusched_scenario *scenario,
                            const struct vg_simulate_options *options,
                            GError **err) G_GNUC_WARN_UNUSED_RESULT;

#endif
