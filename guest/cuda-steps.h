/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA programs of one worker process, and concurrent calls of the driver for all of them. For
 * cuda-release.c, cuda-restore.c and provider-cuda.c.
 */
#ifndef VG_GUEST_CUDA_STEPS_H
#define VG_GUEST_CUDA_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <json-c/json.h>

#include "guest/cuda-caller.h"
#include "guest/cuda-job.h"
#include "guest/work.h"

enum {
    /* The pause between two checks of processes, or of the GPUs. */
    VG_CUDA_LOOK_MS = 200,
    /* The time to query the GPUs, and for the driver to show them after they were plugged in. */
    VG_CUDA_GPUS_MS = 10000,
    /* The time to let restored processes run, even after the deadline. */
    VG_CUDA_UNLOCK_MS = 5000,
    /* A wildcard for any state. */
    VG_CUDA_ANY_STATE = -2,
};

/* The processes of this work. If releasing fails, undoing waits for the calls in progress. */
extern struct vg_cuda_job vg_cuda_work;

/* Makes one call for each process that is in this state, concurrently. Returns how many failed. */
size_t vg_cuda_steps_call(struct vg_guest_work *work, enum vg_cuda_op op, int state,
                          int64_t until_ms);
/* Restores the processes that were checkpointed. */
size_t vg_cuda_steps_restore(struct vg_guest_work *work, const struct vg_cuda_pair *pairs,
                             size_t n_pairs);

/* Return the last calls that were made, and the process of each. */
size_t vg_cuda_steps_n(void);
const struct vg_cuda_call *vg_cuda_steps_call_at(size_t i, struct vg_cuda_process **ret_process);

/* Waits for calls in progress, rather than making them again. */
void vg_cuda_steps_settle(int64_t until_ms);

/* Fails with the first of the last calls that failed, if there is one. Returns -1. `what` completes
 * "the process ...", as in "cannot be stopped". */
int vg_cuda_steps_fail(struct vg_guest_work *work, const char *what);

/* Counts the living processes in this state. */
size_t vg_cuda_steps_count(int state);

/* Adds the outcomes for the processes to the answer. */
void vg_cuda_steps_report(struct vg_guest_work *work);

/* ---- the two halves ---- */

/* Queries the driver and the watch about each process. Returns the first that cannot be released
 * and restored, or NULL. Sets `why` of each. */
const struct vg_cuda_process *vg_cuda_release_ask(struct vg_guest_work *work, int64_t until_ms);

/* Compares the guest's free memory with the memory that releasing needs, in bytes. Returns 0, or
 * -1. */
int vg_cuda_release_compare_memory(const char *root, int64_t *ret_need, int64_t *ret_free);

int vg_cuda_release(struct vg_guest_work *work, json_object **ret_kept);
int vg_cuda_restore(struct vg_guest_work *work, json_object *kept, bool undo);

#endif
