/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides whether an older plan may still be executed. Pure; any thread.
 */
#ifndef VG_POLICY_DRIFT_H
#define VG_POLICY_DRIFT_H

#include <stdbool.h>

#include <glib.h>

#include "model/plan.h"
#include "model/snapshot.h"

/* Finds the action of a plan that moves this VM, a name or a UUID, to this host. hash is the
 * input_hash that the caller has seen, or NULL. Fails with VG_E_CONFLICT if the plan has another
 * hash, or no such action. */
const struct vg_plan_action *vg_drift_find_action(const vg_plan *plan, const char *vm,
                                                  const char *to, const char *hash, GError **err);

/* Compares both hosts and the VM of an action with their state when the plan was made. Returns 0,
 * or -1 with VG_E_CONFLICT and the changed facts. */
int vg_drift_check(const vg_snapshot *snapshot, const vg_plan *plan,
                   const struct vg_plan_action *action, GError **err);

/* Finds a plan's action for a VM's programs on proxies: to is their target, or NULL for a change of
 * the weight. Fails with VG_E_CONFLICT if the plan has no such action. */
const struct vg_plan_proxy_action *vg_drift_find_proxy_action(const vg_plan *plan, const char *vm,
                                                              const char *to, int64_t weight,
                                                              GError **err);

/* Checks that a VM's programs use the same proxy as when the plan was made, and that the target
 * proxy has the VM's socket and the same GPU. Returns 0, or -1 with VG_E_CONFLICT. */
int vg_drift_check_proxy(const vg_snapshot *snapshot, const vg_plan *plan,
                         const struct vg_plan_proxy_action *action, GError **err);

/* Ensures that VMs which must not share a host are moved one after the other. Returns 0, or -1 with
 * VG_E_CONFLICT if `other`, which is being moved, is in an anti-affinity group of `vm`. */
int vg_drift_check_groups(const struct vg_snap_vm *vm, const struct vg_snap_vm *other,
                          GError **err);

#endif
