/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts that the name of a GPU profile states: "GRID T4-1Q", "NVIDIA A100-1-5C", "1g.10gb".
 */
#ifndef VG_MODEL_GPU_PROFILE_H
#define VG_MODEL_GPU_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

/* Returns whether the profile is a MIG slice, whose engines no other VM can use. name may be NULL.
 */
bool vg_gpu_profile_is_mig(const char *name);

/* Returns the GPU memory of one vGPU or slice of the profile, or 0 if the name does not state it.
 * name may be NULL. */
int64_t vg_gpu_profile_bytes(const char *name);

#endif
