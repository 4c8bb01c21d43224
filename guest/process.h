/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the guest's processes from /proc. root is as in vg_guest_devices_read(). Any process of
 * the agent.
 */
#ifndef VG_GUEST_PROCESS_H
#define VG_GUEST_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct vg_guest_process {
    pid_t parent;
    /* The clock ticks from the guest's boot to its start, which differ for another process with
     * this pid. */
    uint64_t start;
    /* It is a zombie, or about to end. */
    bool ended, ending;
};

/* Returns 0, or -1 if there is no such process. */
int vg_guest_process_read(const char *root, pid_t pid, struct vg_guest_process *ret);

/* Returns a number from its status, such as "TracerPid:", or -1 if not found. dir, here and below,
 * is the directory of a process or thread in /proc. */
long vg_guest_process_number(const char *dir, const char *name);
/* Reads its name, which the process can choose freely: control characters, quotes and backslashes
 * become '?'. It is empty if the process does not exist. */
void vg_guest_process_name(const char *dir, char *ret, size_t size);
/* Returns the letter of its state, or X if it does not exist. */
char vg_guest_process_state(const char *dir);
/* Returns whether it has ended, even if it has not been waited for. */
bool vg_guest_process_ended(const char *dir);

/* Calls `found` for each process. */
void vg_guest_process_each(const char *root, void (*found)(void *user, pid_t pid), void *user);

#endif
