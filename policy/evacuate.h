/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds a target for each VM of a host that must be emptied. Unlike a plan, it does not require a
 * gain: it chooses the target that causes the smallest loss for the VM and the VMs there. Pure; any
 * thread.
 */
#ifndef VG_POLICY_EVACUATE_H
#define VG_POLICY_EVACUATE_H

#include "model/snapshot.h"
#include "policy/policy-conf.h"

/* The target of a VM. */
struct vg_evacuation {
    char *vm;
    char *uuid;      /* or NULL */
    char *to;        /* a host; NULL if the VM stays */
    GPtrArray *gpus; /* struct vg_gpu_target; empty if the VM stays */
    char *reason;    /* one sentence: why this target, or why it stays */
    double seconds;  /* predicted duration of its move; 0 if it stays */
};

/* Returns a struct vg_evacuation for each VM of the host, in the order of moves: first VMs with the
 * most memory, because others fit more easily; then VMs that stay. Each placement assumes that the
 * previous moves are done. The caller frees the array. snapshot must be sealed. An unknown host has
 * no VMs. */
GPtrArray *vg_policy_evacuate(const vg_snapshot *snapshot, const struct vg_policy_config *config,
                              const char *host);

#endif
