/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that call NVIDIA's driver for a worker process (guest/child.h), which has one set of
 * them. Each caller makes one call at a time, and several run concurrently. A caller whose call
 * hangs is abandoned. Callers have the GPU open, so they must end before the GPU is removed.
 */
#ifndef VG_GUEST_CUDA_CALLER_H
#define VG_GUEST_CUDA_CALLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "guest/cuda-api.h"

#define VG_CUDA_GPUS_MAX      16
#define VG_CUDA_PROCESSES_MAX 256
/* The maximum number of concurrent calls; further calls wait. */
#define VG_CUDA_CALLERS_MAX 16

enum vg_cuda_op {
    VG_CUDA_OP_STATE,
    VG_CUDA_OP_LOCK,
    VG_CUDA_OP_CHECKPOINT,
    VG_CUDA_OP_RESTORE,
    VG_CUDA_OP_UNLOCK,
};

struct vg_cuda_gpu {
    struct vg_cuda_uuid uuid;
    /* An address such as "0000:01:00.0". */
    char address[16];
    char name[96];
    int major, minor;
    int64_t total_bytes, free_bytes, used_bytes;
};

/* The GPU memory of a process; -1 if the driver does not report it. */
struct vg_cuda_use {
    pid_t pid;
    size_t gpu;
    int64_t bytes;
};

struct vg_cuda_gpus {
    size_t n, n_uses;
    struct vg_cuda_gpu gpus[VG_CUDA_GPUS_MAX];
    struct vg_cuda_use uses[VG_CUDA_PROCESSES_MAX];
    /* The driver did not answer for a GPU, or there are more uses than listed. */
    bool incomplete;
    /* The reason if the query failed; otherwise empty. */
    char why[160];
};

enum vg_cuda_outcome {
    /* It has not started. */
    VG_CUDA_WAITS,
    VG_CUDA_UNDER_WAY,
    /* The driver has answered; `result` is its answer. */
    VG_CUDA_ANSWERED,
    /* The calling process has ended, or could not be started. */
    VG_CUDA_CRASHED,
    /* The calling process hung and was killed. */
    VG_CUDA_GIVEN_UP,
    /* The library exists but cannot be used; `why` has the reason. */
    VG_CUDA_UNUSABLE,
    /* No library can be loaded; `why` has the reason. */
    VG_CUDA_ABSENT,
};

struct vg_cuda_call {
    enum vg_cuda_op op;
    pid_t pid;
    unsigned int timeout_ms;
    size_t n_pairs;
    struct vg_cuda_pair pairs[VG_CUDA_GPUS_MAX];

    enum vg_cuda_outcome outcome;
    /* A CUresult, whose name is in `why`. */
    int result;
    /* The answer to STATE, a CUprocessState. */
    int state;
    /* Monotonic times. */
    int64_t began_us, ended_us;
    /* The name of the result, or the reason for the failure. */
    char why[160];
};

/* Starts up to n callers, which initialise the driver concurrently, and another that queries the
 * GPUs. */
void vg_cuda_callers_start(size_t n);

/* Waits for the GPU query that each start makes. Returns 0, or -1 and ret->why. */
int vg_cuda_callers_gpus(struct vg_cuda_gpus *ret, int64_t until_ms);

/* Receives the progress of calls: `began` for each started call, with its index, and `ticked` once
 * a second while calls are in progress. */
struct vg_cuda_listener {
    void (*began)(size_t i);
    void (*ticked)(void);
};

/* Makes the calls concurrently, until all are done, until_ms has passed, or the work must end.
 * Calls still in progress then continue; their structs must stay in place until the calls have
 * ended. The listener may be NULL. */
void vg_cuda_callers_run(struct vg_cuda_call *calls, size_t n, int64_t until_ms,
                         const struct vg_cuda_listener *listener);

/* Waits for calls of earlier runs that are still in progress. */
void vg_cuda_callers_settle(int64_t until_ms);

/* Abandons the calls in progress: their processes are killed and replaced. */
void vg_cuda_callers_abandon(void);

/* Returns whether this process is one of the callers. */
bool vg_cuda_callers_have(pid_t pid);

/* Ends the callers. A caller that hangs is killed without waiting for it. */
void vg_cuda_callers_end(void);

#endif
