/* SPDX-License-Identifier: Apache-2.0
 *
 * The rule that frees slots for vGPUs when an operator or nova requires them; inside the policy
 * only.
 *
 * It finds the group of moves with the lowest price after which one host has N free slots of a
 * type. The price is the cost of the moves in cores, plus the additional cores and engines that are
 * lost afterwards. Thresholds, minimum gains and the limits of other plans do not apply. A group
 * has at most VG_GROUP_MAX moves.
 *
 * The search takes the hosts in the order of their lowest possible prices. On each host it tries
 * the sets of VMs whose departure is enough, and for each of these VMs the targets with the
 * smallest losses. If a VM has no target, up to three VMs of another host make room for it. The
 * work is limited, so in a large cluster the result may not be the cheapest; a note of the plan
 * says so.
 */
#ifndef VG_POLICY_FREE_UP_H
#define VG_POLICY_FREE_UP_H

#include "policy/rule.h"
#include "policy/search.h"

/* The slots that are required on one host. */
struct free_up_want {
    const char *name;
    size_t type; /* vg_card_type_of() */
    int64_t bytes;
    int64_t n;
};

struct free_up_group {
    size_t host; /* where the slots are free afterwards */
    size_t n;
    struct vg_move moves[VG_GROUP_MAX]; /* in the order of execution */
    double cost, gain;                  /* cores */
};

/* Counts the slots of these GPUs, up to want->n. */
int64_t free_up_count(const struct vg_card *cards, size_t n_gpus, const struct free_up_want *want);

/* Returns whether a host has a GPU that ever gives this type. */
bool free_up_is_offered(const struct vg_host_state *host, const struct free_up_want *want);

/* Returns whether a VM has a vGPU on a GPU that ever gives this type. */
bool free_up_concerns(const vg_cluster *cluster, size_t vm, const struct free_up_want *want);

/* Finds the cheapest group. Returns false if it finds no group. *ret_cut: the search ended at its
 * limit. The cluster is as before. */
bool free_up_search(vg_cluster *cluster, const struct free_up_want *want, struct free_up_group *ret,
                    bool *ret_cut);

/* Makes the plan. The cluster must be one of vg_cluster_new_with_type() for the same type. */
void vg_rule_free_up(vg_cluster *cluster, const char *type, int64_t n, vg_plan *plan);

#endif
