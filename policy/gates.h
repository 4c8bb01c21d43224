/* SPDX-License-Identifier: Apache-2.0
 *
 * The gates between "could be better" and "is proposed", inside the policy only.
 *
 * Threshold: a place of the host (a pool of CPUs, its floating VMs, an engine) loses at least
 * contention_threshold on average over the profile, by the model; or one of its VMs waits for a CPU
 * (preempt + wake_wait) at least that share, as measured.
 *
 * Hold: the contention has lasted. The mean loss over the newest windows that make up hold_ns, and
 * that over those of hold_long_ns, must both be the threshold or more; 0 switches one off, and any
 * other hold_long_ns below hold_ns counts as hold_ns. A live host with less history than hold_ns is
 * not held yet; of hold_long_ns, what there is counts. For recordings and examples, which cannot
 * grow, the whole profile counts if it is shorter, and a host without any profile counts as held:
 * its constant rates are all there will ever be. A measured wait has no history of its own; it is
 * held as soon as the VM's profile covers hold_ns, because live rates are averaged over longer than
 * that. A hold time longer than a profile can be counts as the longest profile.
 *
 * Minimum gain, of each group of moves as a whole: net of its cost it must win min_gain (and
 * something at all), and before cost min_gain_fraction of what it could win at most: what the hosts
 * that its VMs leave lose, but not more than these VMs want. Where the figures of one of its hosts
 * are old, it must win more of both: twice as much at an age of stale_ns.
 */
#ifndef VG_POLICY_GATES_H
#define VG_POLICY_GATES_H

#include "policy/predict.h"
#include "policy/rule.h"

/* Figures below this are not worth mentioning beside figures with two places. */
#define VG_GATE_SHOWN 0.005

/* Formats two figures that a sentence compares, with `digits` after the point, or with as many more
 * as it takes to tell them apart: 0.0499 is not "below 0.05" when it is shown as 0.05. The caller
 * frees both. */
void vg_gate_figures(double a, double b, int digits, char **ret_a, char **ret_b);

struct vg_contention {
    bool contended;
    bool held;
    struct vg_loss lost; /* the loss of the worst place, by the model: cores or engines */
    char *what;          /* a sentence without a full stop, even if nothing is contended */
};

/* Returns how many windows make up a hold time, at least 1; 0: it is not asked for. */
size_t vg_gate_windows(int64_t hold_ns, int64_t window_ns);

/* Returns hold_long_ns, but not less than hold_ns. */
int64_t vg_gate_hold_long(const struct vg_policy_config *config);

/* Looks for contention on a host. The caller clears *ret with vg_contention_clear(). */
void vg_gate_contention(const vg_cluster *cluster, size_t host, struct vg_contention *ret);
void vg_contention_clear(struct vg_contention *contention);

/* What a move or a group of moves wins, to be checked. */
struct vg_claim {
    double gain;                       /* cores, before its cost */
    double cost_cores;                 /* of all its moves */
    double most;                       /* what its VMs could win anywhere at most */
    const struct vg_snap_host *oldest; /* of its hosts, that with the oldest figures */
};

/* Returns the claim of a move by itself. */
struct vg_claim vg_gate_claim(const vg_cluster *cluster, const struct vg_move *move);

/* Checks a gain. If it returns false, *ret_reason, if not NULL, gets a clause ("it wins ..."). */
bool vg_gate_gain(const vg_cluster *cluster, const struct vg_claim *claim, char **ret_reason);

#endif
