/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that call NVIDIA's driver for the one that works: each makes one call at a time, some
 * run side by side, and one whose call hangs is left behind. They have the GPU open themselves, so
 * they must have ended before it leaves. For the process that works (guest/child.h), which has one
 * set of them.
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
/* At once; more take turns. */
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
    /* "0000:01:00.0" */
    char address[16];
    char name[96];
    int major, minor;
    int64_t total_bytes, free_bytes, used_bytes;
};

/* Memory that a process has of a GPU, -1: not told. */
struct vg_cuda_use {
    pid_t pid;
    size_t gpu;
    int64_t bytes;
};

struct vg_cuda_gpus {
    size_t n, n_uses;
    struct vg_cuda_gpu gpus[VG_CUDA_GPUS_MAX];
    struct vg_cuda_use uses[VG_CUDA_PROCESSES_MAX];
    /* Why there is nothing, or empty. */
    char why[160];
};

enum vg_cuda_outcome {
    /* Not begun. */
    VG_CUDA_WAITS,
    VG_CUDA_UNDER_WAY,
    /* result says how. */
    VG_CUDA_ANSWERED,
    /* The process that called has ended, or cannot be started. */
    VG_CUDA_CRASHED,
    /* It hung and was ended. */
    VG_CUDA_GIVEN_UP,
    /* There is no usable library; why says so. */
    VG_CUDA_UNUSABLE,
};

struct vg_cuda_call {
    enum vg_cuda_op op;
    pid_t pid;
    unsigned int timeout_ms;
    size_t n_pairs;
    struct vg_cuda_pair pairs[VG_CUDA_GPUS_MAX];

    enum vg_cuda_outcome outcome;
    /* A CUresult and its name. */
    int result;
    /* Of STATE. */
    int state;
    /* Monotonic. */
    int64_t began_us, ended_us;
    /* The result's name, or what was wrong. */
    char why[160];
};

/* Starts up to n of them, which get the driver ready at once, and one that looks at the GPUs. */
void vg_cuda_callers_start(size_t n);

/* The GPUs, by then; one look for each start. 0, or -1 and ret->why. */
int vg_cuda_callers_gpus(struct vg_cuda_gpus *ret, int64_t until_ms);

/* Makes the calls, side by side, until all are made, or then, or until the work shall end. Those
 * that are under way then go on; the calls must stay where they are until settled. began is called
 * for each as it begins; may be NULL. */
void vg_cuda_callers_run(struct vg_cuda_call *calls, size_t n, int64_t until_ms,
                         void (*began)(void *user, size_t i), void *user);

/* Waits for what is under way of earlier runs. */
void vg_cuda_callers_settle(int64_t until_ms);

/* Gives up what is under way: who asked is killed, others take their places. */
void vg_cuda_callers_abandon(void);

/* Whether it is one of them. */
bool vg_cuda_callers_have(pid_t pid);

/* Ends them; one that hangs is killed and left behind. */
void vg_cuda_callers_end(void);

#endif
