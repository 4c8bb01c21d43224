/* SPDX-License-Identifier: Apache-2.0
 *
 * Holds the threads of CUDA programs that fault while the driver has taken memory of theirs away
 * (guest/hold.h). Faults of a program's own are delivered as ever. For a worker process.
 */
#ifndef VG_GUEST_CUDA_HOLD_H
#define VG_GUEST_CUDA_HOLD_H

#include <json-c/json.h>

#include "guest/cuda-job.h"
#include "guest/work.h"

/* Checks, before the driver is asked, whether the threads of each process can be held: one that a
 * debugger has stopped does not answer. Returns the first process that another one traces, which
 * has a `why` then, or NULL. Where no process may be traced, each gets an `unheld`. */
const struct vg_cuda_process *vg_cuda_hold_check(const struct vg_guest_work *work,
                                                 struct vg_cuda_job *job);

/* Begins to hold, before the processes are locked. Returns the first process that could be held
 * only in part, which has a `why` then; otherwise NULL. */
const struct vg_cuda_process *vg_cuda_hold_begin(const struct vg_guest_work *work,
                                                 struct vg_cuda_job *job);

/* Notes what the processes have mapped, now that they are locked. */
void vg_cuda_hold_locked(const struct vg_guest_work *work);

/* Has threads go on in the processes that are back, which are locked still. */
void vg_cuda_hold_repeat(const struct vg_guest_work *work, const struct vg_cuda_job *job);

/* Ends the hold of processes that run or have ended. Others stay held. */
void vg_cuda_hold_end(const struct vg_guest_work *work, struct vg_cuda_job *job);

/* Counts the threads of each process that have been held so far. */
void vg_cuda_hold_count(const struct vg_guest_work *work, struct vg_cuda_job *job);

/* Adds the processes that are held now to a description of the provider. */
void vg_cuda_hold_tell(const struct vg_guest_config *config, json_object *about);

#endif
