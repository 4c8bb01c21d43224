/* SPDX-License-Identifier: Apache-2.0
 *
 * Hard constraints, which forbid a move regardless of its gain; used only inside the policy. They
 * are checked against the cluster after the moves planned until now. If the snapshot lacks data for
 * a constraint, the answer is "no" if a wrong guess would break the VM (vGPU type, CPU model), and
 * "yes" with a note in the plan if the move would only be refused later (memory).
 */
#ifndef VG_POLICY_CONSTRAINTS_H
#define VG_POLICY_CONSTRAINTS_H

#include "policy/cluster.h"

enum vg_constraint {
    VG_CONSTRAINT_NONE,
    VG_CONSTRAINT_BAD_DATA,
    VG_CONSTRAINT_UNKNOWN_DEMAND,
    VG_CONSTRAINT_UNKNOWN_GPU,
    VG_CONSTRAINT_NEVER_MOVE,
    VG_CONSTRAINT_OTHER_MANAGER,
    VG_CONSTRAINT_ONLY_COLD,
    VG_CONSTRAINT_UNMANAGED,
    VG_CONSTRAINT_PINNED,
    VG_CONSTRAINT_SAME_HOST,
    VG_CONSTRAINT_SAME_NAME,
    VG_CONSTRAINT_MAINTENANCE,
    VG_CONSTRAINT_CPU_MODEL,
    VG_CONSTRAINT_MEMORY,
    VG_CONSTRAINT_GPU_TYPE,
    VG_CONSTRAINT_GPU_FREE,
    VG_CONSTRAINT_GPU_MEMORY,
    VG_CONSTRAINT_AFFINITY,
    VG_CONSTRAINT_ANTI_AFFINITY,
    VG_CONSTRAINT_MOVE_LIMIT,
    VG_CONSTRAINT_MAX
};

/* Returns a stable id for programs: "gpu-type", ... */
const char *vg_constraint_name(enum vg_constraint constraint);

/* Checks whether the VM may be moved at all. If not, *ret_reason receives a sentence, which the
 * caller frees. */
enum vg_constraint vg_constraints_vm(const vg_cluster *cluster, size_t vm, char **ret_reason);

/* Checks whether the VM may be moved to this host. NONE fills *ret_fit, other values *ret_reason.
 * Does not call vg_constraints_vm() again. */
enum vg_constraint vg_constraints_host(const vg_cluster *cluster, size_t vm, size_t host,
                                       struct vg_fit *ret_fit, char **ret_reason);

/* Checks whether the host has reached its limit of moves in one wave. ret_reason may be NULL. */
enum vg_constraint vg_constraints_moves(const vg_cluster *cluster, size_t host, char **ret_reason);

#endif
