/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes that the agent has seen holding a GPU. Any process in the guest can connect as an
 * OpenCL program; its statements about a GPU count only if it is in this list. The list is also
 * stored in a file, for a restarted agent. For the agent's only thread.
 */
#ifndef VG_GUEST_OPENCL_SEEN_H
#define VG_GUEST_OPENCL_SEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define VG_OPENCL_SEEN_PATH "/run/vgpu-guestd-opencl-seen"
/* The maximum number of processes; if there are more, a new one replaces the oldest. */
#define VG_OPENCL_SEEN_MAX 1024

struct vg_opencl_seen {
    const char *root;
    size_t n;
    struct {
        pid_t pid;
        /* The start, as in struct vg_guest_process. */
        uint64_t start;
    } list[VG_OPENCL_SEEN_MAX];
};

/* Reads the file below root, which outlives the list. Processes that have ended are left out. */
void vg_opencl_seen_read(struct vg_opencl_seen *ret, const char *root);

bool vg_opencl_seen_has(const struct vg_opencl_seen *seen, pid_t pid, uint64_t start);

/* Adds a process, forgets those that have ended, and writes the file. */
void vg_opencl_seen_add(struct vg_opencl_seen *seen, pid_t pid, uint64_t start);

#endif
