/* SPDX-License-Identifier: Apache-2.0
 *
 * Code shared by the rules, inside the policy only: a move under evaluation, and its way into a
 * plan.
 */
#ifndef VG_POLICY_RULE_H
#define VG_POLICY_RULE_H

#include "model/plan.h"
#include "policy/predict.h"

struct vg_move {
    size_t vm;
    size_t from;
    size_t to;
    struct vg_fit fit;
    struct vg_loss from_before;
    struct vg_loss from_after;
    struct vg_loss to_before;
    struct vg_loss to_after;
    struct vg_loss gain; /* sum of both hosts */
    struct vg_plan_cost cost;
    double weighed; /* gain in cores */
    double cost_cores;
    double net; /* weighed - cost_cores */
};

/* Evaluate a move in two halves, because the first is the same for all targets of a VM: the gain of
 * its host and the cost of the move. Before the second half, gain, weighed and net are upper
 * bounds, because no target gains by accepting a VM; `to` is `from`. They only read the cluster. */
void vg_move_begin(const vg_cluster *cluster, size_t vm, struct vg_move *ret);
void vg_move_finish(const vg_cluster *cluster, size_t to, const struct vg_fit *fit,
                    struct vg_move *move);

/* Evaluates both halves. */
void vg_move_evaluate(const vg_cluster *cluster, size_t vm, size_t to, const struct vg_fit *fit,
                      struct vg_move *ret);

/* Appends a struct vg_gpu_target to an array for each GPU that the move names or leaves open. */
void vg_move_add_gpus(const vg_cluster *cluster, const struct vg_move *move, GPtrArray *gpus);

/* Appends the action with gain, cost, role, facts and inputs; the rule adds the text and the
 * runner-up. Then applies the move to the cluster. */
struct vg_plan_action *vg_move_commit(vg_cluster *cluster, const struct vg_move *move,
                                      const char *rule, vg_plan *plan);

/* Returns "move 'vm-a' from 'host-1' to 'host-2'"; the caller frees it. */
char *vg_move_text(const vg_cluster *cluster, const struct vg_move *move);

/* For paper-threshold: whether the rule moves the VM, and the majority of GPU-intensive VMs on a
 * host. Only a positive majority makes a target; the rule takes the largest, then the first by
 * name. In both cases *ret_reason receives a sentence without a full stop; the caller frees it. */
bool vg_paper_judge_vm(const vg_cluster *cluster, size_t vm, char **ret_reason);
int64_t vg_paper_judge_host(const vg_cluster *cluster, size_t host, char **ret_reason);

/* The rules. They fill verdict, actions, why and notes. */
void vg_rule_complement(vg_cluster *cluster, vg_plan *plan);
void vg_rule_paper_threshold(vg_cluster *cluster, vg_plan *plan);

#endif
