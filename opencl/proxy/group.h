/* SPDX-License-Identifier: Apache-2.0
 *
 * What a client's process may take of the machine: its memory, processes and files. Where a control
 * group is delegated to the proxy, each client has one of its own below, and the kernel counts all
 * that it takes. Elsewhere its memory is limited while it builds (serve/watch.c). Used by one
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
    uint64_t memory;                  /* bytes of each client; 0: no limit */
    int root;                         /* the proxy's own group, a folder; -1: none is delegated */
    char path[PROXY_GROUP_PATH];      /* of it, for messages */
    uint64_t n;                       /* groups that were ever made */
    uint64_t left[PROXY_GROUPS_LEFT]; /* that are to be removed; 0: none */
};

/* A client's. */
struct proxy_group {
    uint64_t number; /* 0: none */
    int procs;       /* by which the client's process enters it; -1: none */
};

/* Takes the group that this process is in, which is delegated to it. Without cgroup v2, or where it
 * is not delegated, there are none, after a message. */
void vg_groups_open(struct proxy_groups *groups);

/* Makes a group for a client. False, with errno. */
bool vg_group_begin(struct proxy_groups *groups, struct proxy_group *group);

/* Of the client's process, before it is confined. STAGING are bytes that it shares with its
 * program. False, with errno. */
bool vg_group_enter(struct proxy_group *group, uint64_t staging);

/* Closes what the proxy has of it to let the client's process in. */
void vg_group_leave(struct proxy_group *group);

/* Ends all processes of a group whose client's process has ended, and removes it. Returns whether
 * one of them was ended as the group had no more memory. */
bool vg_group_end(struct proxy_groups *groups, struct proxy_group *group);

/* Closes what another process has of them. */
void vg_groups_leave(const struct proxy_groups *groups);

#endif
