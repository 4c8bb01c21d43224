/* SPDX-License-Identifier: Apache-2.0
 *
 * The contention model, inside the policy only.
 *
 * Lost CPU of a host in one profile window, in cores: with d_i the demand and c_i the CPUs of pool
 * i, f the floating demand and C the CPUs of the host, what the host itself takes included in both,
 *     sum_i max(0, d_i - c_i) + max(0, f - (C - sum_i min(d_i, c_i)))
 * which is what a work-conserving scheduler cannot serve. Lost GPU: for every engine
 * max(0, demand - 1). Both are averaged over the windows of the profile.
 *
 * What it leaves out, so nobody takes it for more: waiting while there is capacity on average
 * (bursts shorter than a window), caches, SMT siblings, NUMA distance, differences in CPU or GPU
 * speed. It is not calibrated against the loss measured on the present host, because a loss that
 * the model does not see there it could not predict to end elsewhere. Demands are upper bounds
 * under contention (model/snapshot.h), so gains are, too.
 */
#ifndef VG_POLICY_PREDICT_H
#define VG_POLICY_PREDICT_H

#include "model/plan.h"
#include "policy/cluster.h"

struct vg_loss {
    double cpu; /* cores */
    double gpu; /* engines */
};

/* cores + gpu_weight * engines: the one number that decisions compare. */
double vg_loss_weighed(const struct vg_policy_config *config, struct vg_loss loss);

/* As things are after the moves so far; without one of its VMs; with one more. */
struct vg_loss vg_predict_host(const vg_cluster *cluster, size_t host);
struct vg_loss vg_predict_without(const vg_cluster *cluster, size_t host, size_t vm);
struct vg_loss vg_predict_with(const vg_cluster *cluster, size_t host, size_t vm,
                               const struct vg_fit *fit);

/* Returns the CPUs of a host that nobody wants in a window and that VMs which float could have. One
 * that comes and wants no more loses nothing, and costs nobody anything; what it wants beyond is
 * lost. */
double vg_predict_free(const vg_cluster *cluster, size_t host, size_t w);

/* Returns the names of the host's pools with commas between, "CPU 0, CPUs 4-7", of many the first;
 * NULL if it has none. The caller frees it. */
char *vg_host_kept_text(const struct vg_host_state *host);

/* What the host would lose if every VM could use all of its CPUs, in cores. */
double vg_predict_spread(const vg_cluster *cluster, size_t host);

/* CPUs that its pools leave for the VMs that float, on average. */
double vg_predict_left(const vg_cluster *cluster, size_t host);

/* The places of a host where something can be lost: its pools, what floats, its engines. */
size_t vg_host_n_places(const struct vg_host_state *host);
const struct vg_load *vg_host_place(const struct vg_host_state *host, size_t place,
                                    bool *ret_is_gpu);
double vg_predict_place(const vg_cluster *cluster, size_t host, size_t place, size_t w);

/* Returns what a VM wants, in cores. */
double vg_predict_wanted(const vg_cluster *cluster, size_t vm);

/* Copying takes (memory + GPU memory) / bandwidth; the VM stands still for stun plus the copying of
 * its GPU memory, of which no part can go ahead while it runs. Lost CPU time is the VM's demand
 * during the stun and copy_cores during the copying. */
void vg_predict_cost(const vg_cluster *cluster, size_t vm, struct vg_plan_cost *ret);

/* The lost CPU time of a move spread over the horizon, in cores. */
double vg_cost_cores(const struct vg_policy_config *config, const struct vg_plan_cost *cost);

/* Cores or engines to ns per second. */
struct vg_plan_gain vg_gain_of(struct vg_loss won);

#endif
