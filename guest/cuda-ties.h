/* SPDX-License-Identifier: Apache-2.0
 *
 * The ties of a process that uses CUDA: uses of the driver that it can release but not restore, or
 * not even release. Each is recognised by calls of libcuda functions. Whether a tie prevents the
 * release of a process depends on the driver's version. Pure.
 */
#ifndef VG_GUEST_CUDA_TIES_H
#define VG_GUEST_CUDA_TIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "guest/cuda-history.h"

struct vg_cuda_tied {
    /* Bits of enum vg_cuda_tie. */
    unsigned int ties;
    /* What was learned of its calls, or NULL. */
    const struct vg_cuda_history *history;
    /* The number of GPUs where it has memory, or 0 if that is not known. */
    size_t gpus;
    /* The most memory that it has on one GPU, or -1 if that is not known. */
    int64_t most_bytes;
    /* Bits of enum vg_cuda_library: those that it has mapped. */
    unsigned int libraries;
    /* The driver's major version, or 0 if it is not known. */
    int driver;
    /* It was started as a job of NVIDIA's checkpoint (CUDA_CHECKPOINT_JOB_FILE). */
    bool is_job;
    /* The one process that could have offered the memory that it uses, or 0. */
    pid_t exporter;
};

/* Returns whether this process's GPU memory affects its ties, so that it must be known. */
bool vg_cuda_tied_wants_bytes(const struct vg_cuda_history *history);

/* Returns whether the process could have a large allocation that another GPU may access, if nothing
 * is known of its calls. */
bool vg_cuda_tied_could_have_peer(const struct vg_cuda_tied *tied);

/* Returns whether the driver can release and restore this process, and adds ties that follow from
 * several calls. ret_why: if it cannot, the reason, the observed calls, and a remedy if one was
 * tried; if only the driver's documentation says that it can, a note about that; otherwise
 * empty. */
bool vg_cuda_tied_can_move(struct vg_cuda_tied *tied, char *ret_why, size_t size);

#endif
