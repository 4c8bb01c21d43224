/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes that use NVIDIA's GPUs with CUDA, and the facts about them and their GPUs. Also
 * their JSON form, which releasing passes to restoring. Makes no driver calls. For a worker
 * process.
 */
#ifndef VG_GUEST_CUDA_JOB_H
#define VG_GUEST_CUDA_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <json-c/json.h>

#include "guest/cuda-caller.h"
#include "guest/inheritor.h"
#include "guest/work.h"

/* The guest memory that a checkpoint takes for each process, in addition to the memory that it
 * copies: 480 MiB were measured with driver 580. */
#define VG_CUDA_OVERHEAD_BYTES ((int64_t)480 << 20)

/* The file that lists the processes that were released and must be restored. */
#define VG_CUDA_KEPT_PATH "/run/vgpu-guestd-cuda.json"

enum vg_cuda_movable {
    /* It has not been checked yet. */
    VG_CUDA_MOVABLE_UNASKED,
    VG_CUDA_MOVABLE_YES,
    VG_CUDA_MOVABLE_NO,
    /* The process was not watched, and it may use another process's memory. */
    VG_CUDA_MOVABLE_UNKNOWN,
};

struct vg_cuda_process {
    pid_t pid;
    /* The start, as in struct vg_guest_process. */
    uint64_t start;
    char comm[32];
    /* The first of its ancestors that uses a GPU, or itself. */
    pid_t job;
    /* GPU memory, by the index of vg_cuda_job.gpus; used only if it is known. */
    int64_t bytes[VG_CUDA_GPUS_MAX];
    bool bytes_known;
    /* uses_cuda: the driver reports the process as a CUDA program. movable: whether it could be
     * restored. */
    bool uses_cuda;
    enum vg_cuda_movable movable;
    /* Bits of enum vg_cuda_tie. */
    unsigned int ties;
    /* The state that the driver last reported, or -1. */
    int state;
    bool gone;
    /* traced: its `why` is that another process traces it. held_threads: the number of its threads
     * that have been held (guest/cuda-hold.h); -1 if none can be. unheld: the reason for that, or
     * empty. */
    bool traced;
    int64_t held_threads;
    char unheld[200];
    /* The time when it was locked, and the duration of each call; -1 for a call that was not
     * made. */
    int64_t locked_us, lock_us, checkpoint_us, restore_us, unlock_us, stop_us;
    /* The nearest of its ancestors that has the GPUs, or 0. */
    pid_t ancestor;
    /* inherited: it has its files of the GPUs from that ancestor. keeps: the reason why it keeps
     * them, or why that is not certain. */
    bool inherited;
    char keeps[200];
    /* The reason why it cannot be released or does not run; otherwise empty. */
    char why[768];
};

/* The maximum number of inheritors, which are forked children that inherited the GPUs' files from
 * these processes and have no other GPU resources. */
#define VG_CUDA_INHERITORS_MAX 2048

struct vg_cuda_job {
    struct vg_cuda_gpus gpus;
    /* The indices of the GPUs that leave, in the order of the request. */
    size_t n_leaving, leaving[VG_CUDA_GPUS_MAX];
    size_t n;
    struct vg_cuda_process processes[VG_CUDA_PROCESSES_MAX];
    /* The inheritors that can release their files. */
    size_t n_inheritors;
    struct vg_guest_inheritor inheritors[VG_CUDA_INHERITORS_MAX];
    /* The numbers of inheritors, and of the descriptors and maps that they have or have released.
     */
    size_t given_processes, given_descriptors, given_maps;
};

/* Finds the processes that have NVIDIA's nodes of the work's devices open or mapped, and their
 * inheritors, except for the callers. Returns the number of processes, which may be more than fit
 * into job. */
size_t vg_cuda_job_find(const struct vg_guest_work *work, struct vg_cuda_job *job);

/* Makes the inheritors release their files of the work's devices, by until_ms at the latest.
 * Returns how many did not; each of these has a `why`. */
size_t vg_cuda_job_give_up(const struct vg_guest_work *work, struct vg_cuda_job *job,
                           int64_t until_ms);

/* Stores the GPUs, and the amount of their memory that each process uses. It may be called again,
 * with later figures. */
void vg_cuda_job_set_gpus(const struct vg_guest_work *work, struct vg_cuda_job *job,
                          const struct vg_cuda_gpus *gpus);

/* Returns the device memory of the processes. If the driver does not report it for each of them,
 * returns all memory that is in use on the GPUs that leave. */
int64_t vg_cuda_job_bytes(const struct vg_cuda_job *job);
/* Determines on how many GPUs a process has memory, and the most that it has on one: 0 and -1 if
 * the driver does not report it. */
void vg_cuda_process_spread(const struct vg_cuda_job *job, const struct vg_cuda_process *process,
                            size_t *ret_gpus, int64_t *ret_most);
/* Returns the device memory of one process, or -1 if it is not known. */
int64_t vg_cuda_process_bytes(const struct vg_cuda_job *job, const struct vg_cuda_process *process);

/* Return whether the process is still the same one, and whether it is about to end. */
bool vg_cuda_process_lives(const char *root, const struct vg_cuda_process *process);
bool vg_cuda_process_is_ending(const char *root, const struct vg_cuda_process *process);

/* Returns the state that restoring requires, as JSON, which the caller releases with
 * json_object_put(). */
json_object *vg_cuda_job_keep(const struct vg_cuda_job *job);
/* Writes that state to its file below /run, so that a restarted agent finds it. */
void vg_cuda_job_write(const char *root, json_object *kept);
/* Reads that state. Returns 0, or -1 if the JSON is something else. */
int vg_cuda_job_read(json_object *kept, struct vg_cuda_job *ret);

/* Adds the processes to the member `programs` of a message, creating it if necessary. `told` is as
 * in vg_guest_programs_add(). */
void vg_cuda_job_describe(const struct vg_cuda_job *job, json_object *message,
                          struct vg_guest_reported *told);

#endif
