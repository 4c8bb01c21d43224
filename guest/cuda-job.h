/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes that use NVIDIA's GPUs with CUDA, what is known of them and their GPUs, and how
 * that goes from releasing to taking back as JSON. Makes no call of the driver. For the process
 * that works.
 */
#ifndef VG_GUEST_CUDA_JOB_H
#define VG_GUEST_CUDA_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <json-c/json.h>

#include "guest/cuda-caller.h"
#include "guest/work.h"

/* What a checkpoint takes of the guest's memory for each process, beside the memory that it copies:
 * measured 480 MiB with driver 580. */
#define VG_CUDA_OVERHEAD_BYTES ((int64_t)480 << 20)

/* What has been released and is to be brought back. */
#define VG_CUDA_KEPT_PATH "/run/vgpu-guestd-cuda.json"

enum vg_cuda_movable {
    /* Nobody has asked. */
    VG_CUDA_MOVABLE_UNASKED,
    VG_CUDA_MOVABLE_YES,
    VG_CUDA_MOVABLE_NO,
    /* Nobody watched it, and it may use memory of another process. */
    VG_CUDA_MOVABLE_UNKNOWN,
};

struct vg_cuda_process {
    pid_t pid;
    /* As in struct vg_guest_process. */
    uint64_t start;
    char comm[32];
    /* The first of its ancestors that uses a GPU, or itself. */
    pid_t job;
    /* Of a GPU, as vg_cuda_job.gpus; used only if known. */
    int64_t bytes[VG_CUDA_GPUS_MAX];
    bool bytes_known;
    /* Whether the driver knows it as a program of CUDA, and whether it could be brought back. */
    bool uses_cuda;
    enum vg_cuda_movable movable;
    /* Of enum vg_cuda_tie. */
    unsigned int ties;
    /* As the driver told last, or -1. */
    int state;
    bool gone;
    /* When it was locked, and how long each call took; -1: not made. */
    int64_t locked_us, lock_us, checkpoint_us, restore_us, unlock_us, stop_us;
    /* Why it cannot be released or does not run; or empty. */
    char why[384];
};

struct vg_cuda_job {
    struct vg_cuda_gpus gpus;
    /* Those of the GPUs that leave, in the order of the request. */
    size_t n_leaving, leaving[VG_CUDA_GPUS_MAX];
    size_t n;
    struct vg_cuda_process processes[VG_CUDA_PROCESSES_MAX];
};

/* Who has NVIDIA's nodes of the work's devices open or mapped, but the callers.
 * Returns how many there are, which may be more than are put into job. */
size_t vg_cuda_job_find(const struct vg_guest_work *work, struct vg_cuda_job *job);

/* Takes over gpus, and what processes use of them. */
void vg_cuda_job_set_gpus(const struct vg_guest_work *work, struct vg_cuda_job *job,
                          const struct vg_cuda_gpus *gpus);

/* Device memory that the processes have; if the driver does not tell it of each, all that is in use
 * of the GPUs that leave. */
int64_t vg_cuda_job_bytes(const struct vg_cuda_job *job);
/* Of one; -1: not known. */
int64_t vg_cuda_process_bytes(const struct vg_cuda_job *job, const struct vg_cuda_process *process);

/* MemAvailable, or -1. */
int64_t vg_cuda_free_memory(const char *root);

/* Returns whether the process is still the one that it was; and whether it is on its way out. */
bool vg_cuda_process_lives(const char *root, const struct vg_cuda_process *process);
bool vg_cuda_process_is_ending(const char *root, const struct vg_cuda_process *process);

/* Makes of it what taking back has to know; the caller puts it. */
json_object *vg_cuda_job_keep(const struct vg_cuda_job *job);
/* Writes that to its file below /run, also for an agent that is started anew. */
void vg_cuda_job_write(const char *root, json_object *kept);
/* 0, or -1 if it is none. */
int vg_cuda_job_read(json_object *kept, struct vg_cuda_job *ret);

/* Adds the processes to the member `programs` of a message, which it makes if it is not there. */
void vg_cuda_job_tell(const struct vg_cuda_job *job, json_object *message);

#endif
