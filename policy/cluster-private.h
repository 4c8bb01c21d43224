/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VG_POLICY_CLUSTER_PRIVATE_H
#define VG_POLICY_CLUSTER_PRIVATE_H

#include "policy/cluster.h"

/* Returns the load of an engine, which is made if nothing uses it yet. */
struct vg_load *cluster_need_engine(const vg_cluster *cluster, struct vg_host_state *host,
                                    const char *device, const char *engine);

/* Adds what a VM wants to the loads of a host, sign 1, or takes it off, sign -1. */
void cluster_add_load(const vg_cluster *cluster, struct vg_host_state *host,
                      const struct vg_vm_state *vm, double sign);

#endif
