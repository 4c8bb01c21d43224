/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes of the guest, by /proc. root as for vg_guest_devices_read(). Any process of the agent.
 */
#ifndef VG_GUEST_PROCESS_H
#define VG_GUEST_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct vg_guest_process {
    pid_t parent;
    /* Clock ticks from the guest's boot to its start: another process with this pid has another. */
    uint64_t start;
    /* It is a zombie, or on its way out. */
    bool ended, ending;
};

/* Returns 0, or -1 if there is no such process. */
int vg_guest_process_read(const char *root, pid_t pid, struct vg_guest_process *ret);

/* Calls `found` for each process. */
void vg_guest_process_each(const char *root, void (*found)(void *user, pid_t pid), void *user);

#endif
