/* SPDX-License-Identifier: Apache-2.0
 *
 * Holds threads that fault in a CUDA program while the driver has taken some of its memory away
 * (guest/hold.h). The program's own faults are delivered as usual. For a worker process.
 */
#ifndef VG_GUEST_CUDA_HOLD_H
#define VG_GUEST_CUDA_HOLD_H

#include <json-c/json.h>

#include "guest/cuda-job.h"
#include "guest/work.h"

/* Before any query to the driver, checks whether the threads of each process can be held; a
 * process that a debugger has stopped does not respond. Returns the first process that another
 * process traces, with its `why` set, or NULL. If no process may be traced, sets `unheld` of
 * each. */
const struct vg_cuda_process *vg_cuda_hold_check(const struct vg_guest_work *work,
                                                 struct vg_cuda_job *job);

/* Starts to hold threads. Call this before the processes are locked. Returns the first process that
 * could be held only in part, with its `why` set, or NULL. */
const struct vg_cuda_process *vg_cuda_hold_begin(const struct vg_guest_work *work,
                                                 struct vg_cuda_job *job);

/* Records the processes' mappings, now that they are locked. */
void vg_cuda_hold_locked(const struct vg_guest_work *work);

/* Lets held threads continue in processes that are restored but still locked. */
void vg_cuda_hold_repeat(const struct vg_guest_work *work, const struct vg_cuda_job *job);

/* Ends the hold of processes that are running or have ended. Other processes are still held. */
void vg_cuda_hold_end(const struct vg_guest_work *work, struct vg_cuda_job *job);

/* Counts the threads of each process that have been held until now. */
void vg_cuda_hold_count(const struct vg_guest_work *work, struct vg_cuda_job *job);

/* Adds the processes that are held now to a description of the provider. */
void vg_cuda_hold_describe(const struct vg_guest_config *config, json_object *about);

#endif
