/* SPDX-License-Identifier: Apache-2.0
 *
 * Hard constraints, which forbid a move whatever it would win; inside the policy only. They are
 * judged on the cluster as it is after the moves planned so far. If the snapshot lacks what a
 * constraint needs, the answer is "no" if guessing wrong would break the VM (vGPU type, CPU model),
 * and "yes" with a note in the plan if the move would only be refused later (memory).
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

/* Returns a stable id for machines: "gpu-type", ... */
const char *vg_constraint_name(enum vg_constraint constraint);

/* Checks whether the VM may be moved at all. If not, *ret_reason gets a sentence; the caller frees
 * it. */
enum vg_constraint vg_constraints_vm(const vg_cluster *cluster, size_t vm, char **ret_reason);

/* Checks whether it may be moved to that host. NONE fills *ret_fit, anything else *ret_reason. Does
 * not call vg_constraints_vm() again. */
enum vg_constraint vg_constraints_host(const vg_cluster *cluster, size_t vm, size_t host,
                                       struct vg_fit *ret_fit, char **ret_reason);

/* Returns how many of a type a GPU of the snapshot can give; -1: it is of another kind. */
int64_t vg_constraints_count_free(const struct vg_snap_host *host, const struct vg_snap_gpu *gpu,
                                  const char *wanted);

/* Checks whether the host already has its share of the moves of one wave. ret_reason may be NULL.
 */
enum vg_constraint vg_constraints_moves(const vg_cluster *cluster, size_t host, char **ret_reason);

#endif
