/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds a place elsewhere for each VM of a host that is to be emptied. Unlike a plan, this does not
 * ask what a move wins: it takes the target on which the VM, and those that are there, lose least.
 * Pure; any thread.
 */
#ifndef VG_POLICY_EVACUATE_H
#define VG_POLICY_EVACUATE_H

#include "model/snapshot.h"
#include "policy/policy-conf.h"

/* Where a VM goes. */
struct vg_evacuation {
    char *vm;
    char *uuid;     /* or NULL */
    char *to;       /* a host; NULL: it stays */
    char *reason;   /* one sentence: why there, or why it stays */
    double seconds; /* that its move takes, as predicted; 0 if it stays */
};

/* Returns struct vg_evacuation for each VM of the host, in the order in which to move them: those
 * that need most memory first, since the others fit more easily; then those that stay. Each is
 * placed with the ones before it moved. The caller frees the array. snapshot must be sealed. A host
 * that it does not have has no VMs. */
GPtrArray *vg_policy_evacuate(const vg_snapshot *snapshot, const struct vg_policy_config *config,
                              const char *host);

#endif
