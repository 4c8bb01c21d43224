/* SPDX-License-Identifier: Apache-2.0
 *
 * The proxies of all hosts in a plan, inside the policy only: finds VMs whose programs would be
 * served better by another GPU or with another weight. Both actions precede moves of VMs, because
 * they cost almost nothing.
 *
 * A VM wants a GPU while its commands run there, and while it waits for the GPU. Demand beyond the
 * GPU's time is lost, as with engines (policy/cluster.h), window by window. A GPU is identified by
 * its host and name; figures of several proxies are added up. A GPU with unknown figures is left
 * out, with the reason.
 */
#ifndef VG_POLICY_PROXIES_H
#define VG_POLICY_PROXIES_H

#include "model/plan.h"
#include "policy/cluster.h"

/* Adds proposals for proxies to a plan, and why there are no more. With a proposal, the verdict is
 * that there are changes. */
void vg_proxies_plan(const vg_cluster *cluster, vg_plan *plan);

#endif
