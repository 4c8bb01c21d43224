/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VG_POLICY_CLUSTER_PRIVATE_H
#define VG_POLICY_CLUSTER_PRIVATE_H

#include "policy/cluster.h"

/* Returns the load of an engine, which is created if nothing uses the engine yet. */
struct vg_load *cluster_need_engine(const vg_cluster *cluster, struct vg_host_state *host,
                                    const char *device, const char *engine);

/* Adds what a VM wants to the loads of a host, sign 1, or subtracts it, sign -1. */
void cluster_add_load(const vg_cluster *cluster, struct vg_host_state *host,
                      const struct vg_vm_state *vm, double sign);

/* Removes the vGPUs of a VM from the cards of its home, sign 1, or puts them back, sign -1. */
void cluster_leave_gpus(const vg_cluster *cluster, const struct vg_host_state *host,
                        const struct vg_snap_vm *vm, struct vg_card *cards, int sign);

/* The demand of a VM by windows of the last minutes, or of the day. */
const struct vg_snap_profile *cluster_profile(const vg_cluster *cluster,
                                              const struct vg_snap_vm *vm);

/* Checks that all values are finite and not negative. */
bool cluster_has_amounts(const GArray *values);

/* Returns whether a VM has a day. */
bool cluster_has_day(const vg_cluster *cluster);

/* Gives a number to each name that several VMs have. */
void cluster_number_names(vg_cluster *cluster);

/* Finds the VMs that have left other hosts, and their days there. */
void cluster_find_departed(vg_cluster *cluster);

/* Sets the length of windows that most profiles have, the shorter of equally many, and the number
 * of the longest profile with this length. */
void cluster_choose_windows(vg_cluster *cluster);

#endif
