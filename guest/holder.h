/* SPDX-License-Identifier: Apache-2.0
 *
 * Which processes have nodes of a GPU open or mapped. What cannot be seen: files on their way
 * through a socket, and mappings that a driver has behind an anonymous file. Any process of the
 * agent.
 */
#ifndef VG_GUEST_HOLDER_H
#define VG_GUEST_HOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "guest/node.h"

struct vg_guest_holder {
    pid_t pid;
    /* As /proc has it: any bytes. */
    char comm[32];
    char path[VG_GUEST_NODE_PATH_MAX];
    bool mapped;
    /* Which function, as in vg_guest_node. */
    size_t device;
};

/* One for each process and node; this process is left out. The first max are put
 * into ret_holders. Returns how many there are. root as for vg_guest_devices_read(). */
size_t vg_guest_holders_find(const char *root, const struct vg_guest_nodes *nodes,
                             struct vg_guest_holder *ret_holders, size_t max);

#endif
