/* SPDX-License-Identifier: Apache-2.0
 *
 * The search for moves, inside the policy only.
 *
 * It works on copies: each load is a row of floats, engines and types have numbers. Of many windows
 * the rows hold means, so what it finds is a proposal: the rule evaluates it again on the cluster,
 * which alone decides. Windows shorter than a mean that alternate look the same here.
 *
 * A group is what moves together and has one gain: a VM, VMs that belong together (affinity), or a
 * chain: a VM takes the place of another, which goes elsewhere, and so on. If the last VM of a
 * chain goes where the first was, the chain is a swap. VMs that belong together may come from
 * several hosts. The moves of a group are in an order in
 * which each finds room when those before it are done.
 *
 * First the search is greedy. A heap has all VMs by the most that they can win; the first is tried
 * on all hosts, and taken if it is still the best, or put back with what it wins now. Then chains
 * for what still loses. Small clusters are searched again and again, each time with other choices,
 * until the work is used up; the best result counts. The work is counted, not timed: the same
 * input gives the same result. At the end, small groups lose the moves that add too little.
 */
#ifndef VG_POLICY_SEARCH_H
#define VG_POLICY_SEARCH_H

#include "policy/cluster.h"

/* The VMs that one group moves. */
#define VG_GROUP_MAX 16u

struct vg_group {
    size_t n;
    struct {
        size_t vm, to;
    } moves[VG_GROUP_MAX]; /* in the order in which they are carried out */
    bool has_other;        /* the best other single move at its time: */
    size_t other_vm, other_to;
};

struct vg_found {
    GArray *groups; /* struct vg_group, in order; allowed and worth it as far as the search sees */
    size_t n_more;  /* moves that would follow if the plan might have more */
    double more_cores; /* what they would win after their cost */
    bool any_allowed;  /* a VM of a host in question could move somewhere */
    bool has_failed;   /* a move was allowed and did not win enough; the VM of the best of these: */
    size_t failed_vm;
};

/* Searches. The cluster is as in the snapshot. held: for each host, whether its VMs should move. */
void vg_search(const vg_cluster *cluster, const bool *held, int64_t max_moves,
               struct vg_found *ret);
void vg_found_clear(struct vg_found *found);

#endif
