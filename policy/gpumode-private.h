/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the mode proposals share.
 */
#ifndef VG_POLICY_GPUMODE_PRIVATE_H
#define VG_POLICY_GPUMODE_PRIVATE_H

#include "policy/gpumode.h"

/* Adds what the platform offers, and what is simulated for comparison, to the advice, which knows
 * what is simulated now. What is as it is now is left out. */
void vg_gpumode_add_candidates(struct vg_gpumode_advice *advice);

/* Whether the platform cuts a request that outlasts its turn, if the present mode is of another
 * platform and says nothing of this one. */
bool vg_gpumode_preempts(const struct vg_gpusched_scenario *present,
                         enum vg_gpumode_platform platform);

void vg_gpumode_candidate_free(void *candidate);

#endif
