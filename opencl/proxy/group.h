/* SPDX-License-Identifier: Apache-2.0
 *
 * Resource limits of a client's process: memory, processes and files. If a control group is
 * delegated to the proxy, each client has a group below it, and the kernel counts everything.
 * Otherwise, memory is limited only while the client builds a program (serve/watch.c). Used by one
 * thread.
 */
#ifndef VG_OPENCL_PROXY_GROUP_H
#define VG_OPENCL_PROXY_GROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PROXY_GROUP_PATH  512 /* bytes */
#define PROXY_GROUPS_LEFT 64

struct proxy_groups {
    uint64_t memory;             /* bytes per client; 0 if unlimited */
    int root;                    /* descriptor of the proxy's own group; -1 if none is delegated */
    char path[PROXY_GROUP_PATH]; /* its path, for messages */
    uint64_t n;                  /* number of groups ever created */
    uint64_t left[PROXY_GROUPS_LEFT]; /* groups yet to be removed; 0 for a free entry */
};

/* A client's group. */
struct proxy_group {
    uint64_t number; /* 0 if there is no group */
    int procs;       /* the client's process joins the group through it; -1 if closed */
};

/* Opens this process's control group if it is delegated to it. Without cgroup v2 or delegation,
 * logs a message, and clients get no groups. */
void vg_groups_open(struct proxy_groups *groups);

/* Creates a group for a client. Returns false with errno on failure. */
bool vg_group_begin(struct proxy_groups *groups, struct proxy_group *group);

/* Called in the client's process before it is confined. STAGING is the size in bytes of the memory
 * shared with its program. Returns false with errno on failure. */
bool vg_group_enter(struct proxy_group *group, uint64_t staging);

/* Closes the descriptor through which the client's process joined the group. */
void vg_group_leave(struct proxy_group *group);

/* Kills all remaining processes in a group whose client's process has ended, and removes the
 * group. Returns whether the kernel killed a process because the group was out of memory. */
bool vg_group_end(struct proxy_groups *groups, struct proxy_group *group);

/* Called in another process: closes the descriptors inherited from the proxy. */
void vg_groups_leave(const struct proxy_groups *groups);

#endif
