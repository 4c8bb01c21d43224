/* SPDX-License-Identifier: Apache-2.0
 *
 * A GPU of the target host that replaces one of the source. Plans name it, and requests for moves
 * repeat it.
 */
#ifndef VG_MODEL_GPU_TARGET_H
#define VG_MODEL_GPU_TARGET_H

#include "base/record.h"

struct vg_gpu_target {
    char *type; /* as vg_gpu_part.type */
    char *from; /* the GPU of the source, "0000:3b:00.0" */
    char *to;   /* the target's GPU, or NULL if the target chooses it */
};

extern const struct vg_record_type vg_gpu_target_record;

#endif
