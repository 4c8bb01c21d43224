/* SPDX-License-Identifier: Apache-2.0
 *
 * `vgpu-guestd end PID`, which lets a user end a CUDA program. The program releases its GPUs
 * first, because a version of NVIDIA's driver hangs the machine when a restored program ends with
 * its GPU memory. For a worker process.
 */
#ifndef VG_GUEST_CUDA_END_H
#define VG_GUEST_CUDA_END_H

#include <sys/types.h>

#include "guest/conf.h"

/* Ends the process by SIGKILL once it has no GPU memory; a process that cannot be released is
 * unchanged. Prints to stdout. Returns the exit status. */
int vg_cuda_end(const struct vg_guest_config *config, pid_t pid);

#endif
