/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the processes that have nodes of a GPU open or mapped. It cannot see files in transit
 * through a socket, nor mappings that a driver has behind an anonymous file. Any process of the
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
    /* The name in /proc, of any bytes. */
    char comm[32];
    char path[VG_GUEST_NODE_PATH_MAX];
    bool mapped;
    /* The function that the node belongs to, as in vg_guest_node. */
    size_t device;
};

/* A descriptor or a map of a node. */
struct vg_guest_hold {
    /* The index of the node. */
    size_t node;
    bool mapped;
    /* The number of a descriptor; -1 for a map. */
    int fd;
    /* The place of a map; 0 for a descriptor. */
    unsigned long long begin, end, offset;
};

/* Finds all pairs of a process and one of its nodes, except for this process. Stores the first max
 * pairs in ret_holders, and returns the total number. root is as for vg_guest_devices_read(). */
size_t vg_guest_holders_find(const char *root, const struct vg_guest_nodes *nodes,
                             struct vg_guest_holder *ret_holders, size_t max);

/* Finds the descriptors and then the maps of the nodes that a process or thread has. task is its
 * directory in /proc. Stores the first max in ret_holds, and returns the total number. */
size_t vg_guest_holds_find(const char *task, const struct vg_guest_nodes *nodes,
                           struct vg_guest_hold *ret_holds, size_t max);

#endif
