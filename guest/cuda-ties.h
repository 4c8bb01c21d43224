/* SPDX-License-Identifier: Apache-2.0
 *
 * The ties of a process that uses CUDA: uses of the driver that it can release but not bring back,
 * or not even release. Each is recognised by the function of libcuda that was called. Whether a tie
 * keeps a process from being released depends on the driver's version. Pure.
 */
#ifndef VG_GUEST_CUDA_TIES_H
#define VG_GUEST_CUDA_TIES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum vg_cuda_tie {
    /* It uses another process's memory. */
    VG_CUDA_TIE_IMPORT = 1 << 0,
    /* It waits for another process's events. */
    VG_CUDA_TIE_EVENT = 1 << 1,
    /* It has memory that several GPUs write at once (NVLink SHARP). */
    VG_CUDA_TIE_MULTICAST = 1 << 2,
    /* It uses memory of another interface, such as Vulkan. */
    VG_CUDA_TIE_EXTERNAL = 1 << 3,
    /* It has unified memory. */
    VG_CUDA_TIE_MANAGED = 1 << 4,
    /* It offered its own memory to others, which by itself is harmless. */
    VG_CUDA_TIE_EXPORT = 1 << 5,
};

struct vg_cuda_tie_call {
    const char *function;
    enum vg_cuda_tie tie;
};

/* The functions of libcuda that make ties. */
extern const struct vg_cuda_tie_call vg_cuda_tie_calls[];
extern const size_t vg_cuda_tie_calls_n;

struct vg_cuda_tied {
    unsigned int ties;
    /* The driver's major version, or 0 if it is not known. */
    int driver;
    /* It was started as a job of NVIDIA's checkpoint (CUDA_CHECKPOINT_JOB_FILE). */
    bool is_job;
    /* The one process that could have offered the memory that it uses, or 0. */
    pid_t exporter;
};

/* Returns whether the driver can release this process and bring it back. ret_why: if it cannot, the
 * reason and a remedy; if only the driver's documentation says that it can, a note about that;
 * otherwise empty. */
bool vg_cuda_tied_can_move(const struct vg_cuda_tied *tied, char *ret_why, size_t size);

#endif
