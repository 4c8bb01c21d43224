/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations shared by the files that propose modes.
 */
#ifndef VG_POLICY_GPUMODE_PRIVATE_H
#define VG_POLICY_GPUMODE_PRIVATE_H

#include "policy/gpumode.h"

/* Adds the modes that the platform offers, and the modes simulated for comparison, to the advice,
 * which contains the simulation of the present mode. Modes that change nothing are left out. */
void vg_gpumode_add_candidates(struct vg_gpumode_advice *advice);

/* Returns whether the platform preempts a request that exceeds its turn: the setting of the present
 * mode if it is a mode of this platform, otherwise the platform's default. */
bool vg_gpumode_preempts(const struct vg_gpusched_scenario *present,
                         enum vg_gpumode_platform platform);

void vg_gpumode_candidate_free(void *candidate);

#endif
