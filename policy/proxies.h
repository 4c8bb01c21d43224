/* SPDX-License-Identifier: Apache-2.0
 *
 * The proxies of all hosts in a plan, inside the policy only: which VM's programs would be served
 * better by another GPU, or with another weight. Both are done before a VM moves, as they cost next
 * to nothing.
 *
 * A VM wants a GPU for as long as its commands run there, or it wanted the GPU and did not have it.
 * What the VMs of a GPU want beyond its time is lost, as with engines (policy/cluster.h), window by
 * window; a GPU is known by its host and name, and those of several proxies are added up. Whatever
 * is not known of the VM's GPU or of another one leaves that out, with the reason.
 */
#ifndef VG_POLICY_PROXIES_H
#define VG_POLICY_PROXIES_H

#include "model/plan.h"
#include "policy/cluster.h"

/* Adds to a plan what it proposes for proxies, and why nothing more; with something proposed, its
 * verdict is that there are changes. */
void vg_proxies_plan(const vg_cluster *cluster, vg_plan *plan);

#endif
