/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the figures of a window that belong to the whole host and not to a VM: the use of its CPUs,
 * the contention for resources and, from time to time, its programs. One thread.
 */
#ifndef VG_COLLECTORS_LIVE_HOST_H
#define VG_COLLECTORS_LIVE_HOST_H

#include "collectors/host-contention.h"
#include "collectors/host-programs.h"

struct vg_live_host {
    struct vg_host_contention contention;
    vg_host_programs *programs;
    int64_t read_ns; /* CLOCK_MONOTONIC, when contention was read last */
};

/* Roots are borrowed: "/proc", "/sys/fs/cgroup" and "/sys" except in tests. */
void vg_live_host_init(struct vg_live_host *host, const char *proc, const char *cgroup,
                       const char *sys);
void vg_live_host_clear(struct vg_live_host *host);

/* Reads the use of the host's CPUs and the contention for resources. Called after the VMs of the
 * window have been read. */
void vg_live_host_read(struct vg_live_host *host, struct vg_window *window);

#endif
