/* SPDX-License-Identifier: Apache-2.0
 *
 * The policy: one immutable snapshot of all known hosts in, a plan out. Pure and reentrant: no
 * I/O, no clock, no state between calls; any thread. The same snapshot content, configuration and
 * rule give the same plan, down to the last byte of its JSON.
 *
 * Rules
 * complement: wins back as much CPU and GPU time as it can. On every host whose contention passed
 *     the gates, it tries every VM (victim, aggressor or bystander) on every other host, takes the
 *     move with the best gain after cost, and repeats with that move done.
 * paper-threshold: Belkhiri & Dagenais 2024: a CPU-intensive VM (class cpu) that is preempted more
 *     often than a threshold goes to the host with the largest majority of GPU-intensive VMs
 *     (class gpu). As published it looks at nothing else; hard constraints are kept, the model's
 *     forecast is reported and not used, and there is no hold and no minimum gain.
 *
 * cluster makes loads of the snapshot (for each pool of CPUs, each GPU engine, each window). The
 * rule asks gates (is there contention, has it lasted?), constraints (is the move allowed?) and
 * predict (what does it win and cost?), and writes what it finds into the plan.
 */
#ifndef VG_POLICY_POLICY_H
#define VG_POLICY_POLICY_H

#include "model/plan.h"
#include "model/snapshot.h"
#include "policy/policy-conf.h"

/* Makes the plan. snapshot must be sealed (VG_E_BUG otherwise; there is no other error). */
vg_plan *vg_policy_plan(const vg_snapshot *snapshot, const struct vg_policy_config *config,
                        enum vg_rule_id rule, GError **err);

/* Judges every host for one VM by config->rule, for "why there" and "why not there"; the best is
 * where that rule would move it. vm is a UUID, "HOST/NAME", a
 * name that only one host has, or a name in OpenStack that only one VM has. VG_E_NOT_FOUND, or
 * VG_E_CONFLICT naming those that have it. */
vg_explanation *vg_policy_explain(const vg_snapshot *snapshot,
                                  const struct vg_policy_config *config, const char *vm,
                                  GError **err);

#endif
