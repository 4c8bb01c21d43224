/* SPDX-License-Identifier: Apache-2.0
 *
 * The conditions that a possible improvement must meet before it is proposed; used only inside the
 * policy.
 *
 * Threshold: by the model, a place of the host (a pool of CPUs, its floating VMs, an engine) loses
 * at least contention_threshold on average over the profile. Or, as measured, one of its VMs waits
 * for a CPU (preempt + wake_wait) at least this share.
 *
 * Hold: the contention has lasted. The mean loss over the newest windows of hold_ns, and the mean
 * over those of hold_long_ns, must both reach the threshold. 0 disables one of them, and any other
 * hold_long_ns below hold_ns counts as hold_ns. A live host with less history than hold_ns is not
 * held yet; for hold_long_ns, the existing history counts. Recordings and examples cannot grow: if
 * the whole profile is shorter it counts, and a host without a profile counts as held, because it
 * has only constant rates. A measured wait has no history of its own; it is held as soon as the
 * VM's profile covers hold_ns, because live rates are averaged over a longer time. A hold time
 * longer than the longest possible profile counts as that profile.
 *
 * Minimum gain, for each group of moves as a whole: after its cost it must gain min_gain (and more
 * than 0), and before its cost min_gain_fraction of its possible maximum. The maximum is the loss
 * of the hosts that its VMs leave, but not more than these VMs' demand. If the figures of one of
 * its hosts are old, both minimums rise: they double at an age of stale_ns. min_gain also rises if
 * one of its VMs has moved within VG_REST_NS.
 */
#ifndef VG_POLICY_GATES_H
#define VG_POLICY_GATES_H

#include "policy/predict.h"
#include "policy/rule.h"

/* Smaller figures are omitted in sentences with figures of two decimals. */
#define VG_GATE_SHOWN 0.005

/* Formats two figures that a sentence compares, with `digits` decimals, or with as many as are
 * needed to distinguish them: 0.0499 is not "below 0.05" if it is shown as 0.05. The caller frees
 * both. */
void vg_gate_figures(double a, double b, int digits, char **ret_a, char **ret_b);

struct vg_contention {
    bool contended;
    bool held;
    struct vg_loss lost; /* the loss of the worst place by the model: cores or engines */
    char *what;          /* a sentence without a full stop, even if nothing is contended */
};

/* Returns the number of windows in a hold time, at least 1; 0 if it is disabled. */
size_t vg_gate_windows(int64_t hold_ns, int64_t window_ns);

/* Returns hold_long_ns, but not less than hold_ns. */
int64_t vg_gate_hold_long(const struct vg_policy_config *config);

/* Checks a host for contention. The caller clears *ret with vg_contention_clear(). */
void vg_gate_contention(const vg_cluster *cluster, size_t host, struct vg_contention *ret);
void vg_contention_clear(struct vg_contention *contention);

/* The gain of a move or a group of moves, to be checked. */
struct vg_claim {
    double gain;                       /* cores, before its cost */
    double cost_cores;                 /* of all its moves */
    double most;                       /* maximum gain of its VMs on any host */
    const struct vg_snap_host *oldest; /* the host with the oldest figures among its hosts */
    double rest;                       /* the highest of its VMs, see struct vg_vm_state */
    bool has_day;
    double day_gain; /* cores, over the last 24 h */
};

/* The part of a gain that the day decides, where it is known. */
#define VG_DAY_WEIGHT 0.5

/* A VM does not return to a host within this time after it left. */
#define VG_RETURN_NS (INT64_C(6) * 3600 * 1000000000)

/* Returns the gain that decides: the mean of both, or the present one. */
double vg_claim_gain(const struct vg_claim *claim);

/* Returns a factor of min_gain for a group with a VM that has moved recently: 1 to 10. */
double vg_gate_rest_margin(double rest);

/* Checks that a VM does not return within VG_REST_NS, nor within VG_RETURN_NS unless it
 * would have won enough there over the last day. If it returns false, *ret_reason, if not NULL,
 * gets a sentence.
 */
bool vg_gate_return(const vg_cluster *cluster, const struct vg_move *move, char **ret_reason);

/* Returns the claim of a single move. */
struct vg_claim vg_gate_claim(const vg_cluster *cluster, const struct vg_move *move);

/* The part of min_gain that each further move of a group must add to the gain of the plan after all
 * costs. Without it, a swap could replace a move for a gain that cannot be measured. */
#define VG_GATE_FURTHER 0.2

/* Returns the cores that each further move must add. */
double vg_gate_further(const vg_cluster *cluster);

/* Checks a gain. If it returns false and ret_reason is not NULL, *ret_reason receives a clause ("it
 * wins ..."). */
bool vg_gate_gain(const vg_cluster *cluster, const struct vg_claim *claim, char **ret_reason);

#endif
