/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that the files of the mode proposals share.
 */
#ifndef VG_POLICY_GPUMODE_PRIVATE_H
#define VG_POLICY_GPUMODE_PRIVATE_H

#include "policy/gpumode.h"

/* Adds the modes that the platform offers, and those that are simulated for comparison, to the
 * advice, which has the simulation of the present mode. Modes that change nothing are left out. */
void vg_gpumode_add_candidates(struct vg_gpumode_advice *advice);

/* Returns whether the platform cuts a request that outlasts its turn, if the present mode is of
 * another platform and says nothing about this one. */
bool vg_gpumode_preempts(const struct vg_gpusched_scenario *present,
                         enum vg_gpumode_platform platform);

void vg_gpumode_candidate_free(void *candidate);

#endif
