/* SPDX-License-Identifier: Apache-2.0
 *
 * The contention model, inside the policy only.
 *
 * Lost CPU of a host in one profile window, in cores, is the demand that a work-conserving
 * scheduler cannot serve:
 *
 *     sum_i max(0, d_i - c_i) + max(0, f - (C - sum_i min(d_i, c_i)))
 *
 * d_i is the demand and c_i the CPUs of pool i, f the floating demand and C the CPUs of the host.
 * Both demands include the host's own use. Lost GPU is max(0, demand - 1) for every engine. Both
 * are averaged over the windows of the profile.
 *
 * The model ignores waits while there is capacity on average (bursts shorter than a window),
 * caches, SMT siblings, NUMA distance, and differences in CPU or GPU speed. It is not calibrated
 * against the loss measured on the present host: if it does not explain a loss there, it could not
 * predict that the loss ends elsewhere. Under contention demands are upper bounds
 * (model/snapshot.h), and so are gains.
 */
#ifndef VG_POLICY_PREDICT_H
#define VG_POLICY_PREDICT_H

#include "model/plan.h"
#include "policy/cluster.h"

struct vg_loss {
    double cpu; /* cores */
    double gpu; /* engines */
};

/* Returns cores + gpu_weight * engines, the number that decisions compare. */
double vg_loss_weighed(const struct vg_policy_config *config, struct vg_loss loss);

/* Return the loss of a host after the moves until now; without one of its VMs; with one more. */
struct vg_loss vg_predict_host(const vg_cluster *cluster, size_t host);
struct vg_loss vg_predict_without(const vg_cluster *cluster, size_t host, size_t vm);
struct vg_loss vg_predict_with(const vg_cluster *cluster, size_t host, size_t vm,
                               const struct vg_fit *fit);

/* Returns the CPUs of a host that no VM wants in a window and that floating VMs could use. A VM
 * that arrives and wants no more loses nothing and costs nothing; further demand is lost. */
double vg_predict_free(const vg_cluster *cluster, size_t host, size_t w);

/* Returns the names of the host's pools separated by commas, "CPU 0, CPUs 4-7", the first ones if
 * there are many; NULL if it has none. The caller frees it. */
char *vg_host_pools_text(const struct vg_host_state *host);

/* Returns the host's loss in cores if every VM could use all of its CPUs. */
double vg_predict_spread(const vg_cluster *cluster, size_t host);

/* Returns the mean number of CPUs that its pools leave for floating VMs. */
double vg_predict_left(const vg_cluster *cluster, size_t host);

/* The places of a host that can have losses: its pools, the floating VMs, its engines. */
size_t vg_host_n_places(const struct vg_host_state *host);
const struct vg_load *vg_host_place(const struct vg_host_state *host, size_t place,
                                    bool *ret_is_gpu);
double vg_predict_place(const vg_cluster *cluster, size_t host, size_t place, size_t w);

/* Returns a VM's demand in cores. */
double vg_predict_wanted(const vg_cluster *cluster, size_t vm);

/* Predicts the cost of a move. Copying takes (memory + GPU memory) / bandwidth. The VM pauses for
 * stun plus the copying of its GPU memory, which cannot be copied while the VM runs. Lost CPU time
 * is the VM's demand during the pause and copy_cores during the copying. */
void vg_predict_cost(const vg_cluster *cluster, size_t vm, struct vg_plan_cost *ret);

/* Returns the lost CPU time of a move divided by the horizon, in cores. */
double vg_cost_cores(const struct vg_policy_config *config, const struct vg_plan_cost *cost);

/* Converts cores or engines to ns per second. */
struct vg_plan_gain vg_gain_of(struct vg_loss won);

#endif
