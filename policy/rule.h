/* SPDX-License-Identifier: Apache-2.0
 *
 * What the rules share, inside the policy only: a move under evaluation, and its way into a plan.
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
    struct vg_loss gain; /* over both hosts */
    struct vg_plan_cost cost;
    double weighed; /* gain in cores */
    double cost_cores;
    double net; /* weighed - cost_cores */
};

/* A move in two halves, because the first is the same for all targets of a VM: what its host wins
 * and what the move costs. Until the second half, gain, weighed and net are an upper bound, because
 * no target wins by taking a VM in; `to` is `from`. Read the cluster only. */
void vg_move_begin(const vg_cluster *cluster, size_t vm, struct vg_move *ret);
void vg_move_finish(const vg_cluster *cluster, size_t to, const struct vg_fit *fit,
                    struct vg_move *move);

/* Both halves. */
void vg_move_evaluate(const vg_cluster *cluster, size_t vm, size_t to, const struct vg_fit *fit,
                      struct vg_move *ret);

/* Appends the action with gain, cost, role, facts and inputs filled in; the rule adds the text and
 * the runner-up. Then carries the move out in the cluster. */
struct vg_plan_action *vg_move_commit(vg_cluster *cluster, const struct vg_move *move,
                                      const char *rule, vg_plan *plan);

/* "move 'vm-a' from 'host-1' to 'host-2'"; the caller frees it. */
char *vg_move_text(const vg_cluster *cluster, const struct vg_move *move);

/* paper-threshold: is the VM one that the rule moves, and what speaks for the host? The margin by
 * which GPU-intensive VMs are the majority; only a positive one makes a target, and of these the
 * rule takes the largest, then the first by name. *ret_reason gets a sentence without a full stop
 * either way; the caller frees it. */
bool vg_paper_judge_vm(const vg_cluster *cluster, size_t vm, char **ret_reason);
int64_t vg_paper_judge_host(const vg_cluster *cluster, size_t host, char **ret_reason);

/* The rules. They fill verdict, actions, why and notes. */
void vg_rule_complement(vg_cluster *cluster, vg_plan *plan);
void vg_rule_paper_threshold(vg_cluster *cluster, vg_plan *plan);

#endif
