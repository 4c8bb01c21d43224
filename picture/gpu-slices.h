/* SPDX-License-Identifier: Apache-2.0
 *
 * Converts the GPU ledger's notifications for charts: to slices, in each of which a request does
 * one thing for one user on one engine, and to the number of requests that are waiting and running.
 * There are no slices of zero length. Only open slices are in memory. One thread at a time.
 */
#ifndef VG_PICTURE_GPU_SLICES_H
#define VG_PICTURE_GPU_SLICES_H

#include "ledger/gpu-ledger.h"

struct vg_gpu_slice {
    struct vg_gpu_change what; /* t_ns is its start, stage a waiting stage or RUNNING */
    int64_t end_ns;            /* after its start */
    bool goes_on;              /* the request's next slice is also a wait, for the same user */
    uint64_t flow;             /* for a wait: the same number as in the slice that runs next */
};

struct vg_gpu_slices_ops {
    /* Called when the request has run, or has ended. Only then is it certain what it waited for,
     * and for which user. The slices of a request are in the order of time. */
    void (*on_slice)(void *data, const struct vg_gpu_slice *slice);
    /* One request more, or one fewer, is waiting or running. Called in the order of the ledger's
     * notifications. */
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

/* Ends the open slices. No other call may follow. */
void vg_gpu_slices_finish(vg_gpu_slices *slices, int64_t end_ns);

#endif
