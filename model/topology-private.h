/* SPDX-License-Identifier: Apache-2.0
 *
 * Internals that the topology's files share.
 */
#ifndef VG_MODEL_TOPOLOGY_PRIVATE_H
#define VG_MODEL_TOPOLOGY_PRIVATE_H

#include "model/topology.h"

#define TID_PAGE_BITS 10
#define TID_PAGE_SIZE (1 << TID_PAGE_BITS)
#define TID_PAGES     (VG_TID_LIMIT / TID_PAGE_SIZE + 1)

/* A VM map's entry for a process id or thread id. */
struct vm_name {
    char name[VG_VM_NAME_MAX];
    char uuid[VG_UUID_LEN];
    bool matched; /* a process or thread has this id */
};

struct vg_topology {
    struct vg_thread **by_tid[TID_PAGES]; /* living threads */
    GPtrArray *threads;                   /* by slot; NULL if free */
    GArray *free_slots;                   /* uint32_t */
    GPtrArray *ended;                     /* threads that may be released */
    GHashTable *by_pid;                   /* living processes with a known pid */
    GHashTable *vms;                      /* id -> VM or possible VM, owned */
    uint32_t next_id;
    GHashTable *names;   /* pid -> struct vm_name, owned */
    GHashTable *helpers; /* pid -> GArray of tids that work for it, while the process is unknown */
    bool only_told;
};

#endif
