/* SPDX-License-Identifier: Apache-2.0
 *
 * What the GPU ledger tells as it happens, put together for pictures: slices, in each of which a
 * request does one thing for one user on one engine, and how many requests wait and run. What takes
 * no time is no slice. In memory is what is open. One thread at a time.
 */
#ifndef VG_PICTURE_GPU_SLICES_H
#define VG_PICTURE_GPU_SLICES_H

#include "ledger/gpu-ledger.h"

struct vg_gpu_slice {
    struct vg_gpu_change what; /* t_ns: its begin; stage: one that waits, or RUNNING */
    int64_t end_ns;            /* after its begin */
    bool goes_on;              /* the next slice of this request waits, too, for the same user */
    uint64_t flow;             /* of a wait: to the slice that runs next, which has the same */
};

struct vg_gpu_slices_ops {
    /* Once the request has run, or is over: only then it is sure what it waited for, and for whom.
     * Of each request in the order of time. */
    void (*on_slice)(void *data, const struct vg_gpu_slice *slice);
    /* One request more, or less, that waits or runs, in the order in which the ledger tells it. */
    void (*on_level)(void *data, const struct vg_gpu_change *what, bool more);
};

static inline bool
vg_gpu_stage_waits(enum vg_gpu_stage stage)
{
    return stage == VG_GPU_STAGE_QUEUED || stage == VG_GPU_STAGE_SUBMITTED ||
           stage == VG_GPU_STAGE_READY;
}

typedef struct vg_gpu_slices vg_gpu_slices;

vg_gpu_slices *vg_gpu_slices_new(const struct vg_gpu_slices_ops *ops, void *data);
void vg_gpu_slices_free(vg_gpu_slices *slices);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_gpu_slices, vg_gpu_slices_free)

void vg_gpu_slices_take(vg_gpu_slices *slices, const struct vg_gpu_change *change);

/* Ends what is open. Nothing may follow. */
void vg_gpu_slices_finish(vg_gpu_slices *slices, int64_t end_ns);

#endif
