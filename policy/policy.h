/* SPDX-License-Identifier: Apache-2.0
 *
 * The policy makes a plan from one immutable snapshot of all known hosts. Pure and reentrant: no
 * I/O, no clock, no state between calls; any thread. The same snapshot content, configuration and
 * rule give the same plan, down to the last byte of its JSON.
 *
 * Rules:
 *
 *   - complement recovers as much CPU and GPU time as it can. For every host whose contention
 *     passed the gates, it tries every VM (victim, aggressor or bystander) on every other host,
 *     takes the move with the best gain after cost, and repeats with this move applied.
 *   - paper-threshold (Belkhiri & Dagenais 2024) moves a CPU-intensive VM (class cpu) that is
 *     preempted more often than a threshold to the host with the largest majority of GPU-intensive
 *     VMs (class gpu). As published, it considers nothing else. Hard constraints apply. The
 *     model's forecast is reported but not used, and there is no hold and no minimum gain.
 *
 * cluster computes loads from the snapshot (for each pool of CPUs, each GPU engine, each window). A
 * rule uses gates (is there contention, and has it lasted?), constraints (is the move allowed?) and
 * predict (its gain and cost), and writes its findings into the plan.
 */
#ifndef VG_POLICY_POLICY_H
#define VG_POLICY_POLICY_H

#include "model/plan.h"
#include "model/snapshot.h"
#include "policy/policy-conf.h"

/* Makes the plan. snapshot must be sealed (VG_E_BUG otherwise; there is no other error). */
vg_plan *vg_policy_plan(const vg_snapshot *snapshot, const struct vg_policy_config *config,
                        enum vg_rule_id rule, GError **err);

/* Makes a plan whose moves free slots for vGPUs on one host. request: see model/free-up.h, except
 * "nova". Also fails with VG_E_INVALID if the request is wrong. */
vg_plan *vg_policy_plan_free_up(const vg_snapshot *snapshot, const struct vg_policy_config *config,
                                const char *request, GError **err);

/* Judges every host for one VM by config->rule, to explain its place. The best host is the one that
 * this rule would choose. vm is a UUID, "HOST/NAME", a name that only one host has, or a name in
 * OpenStack that only one VM has. Fails with VG_E_NOT_FOUND, or with VG_E_CONFLICT and the VMs that
 * match. */
vg_explanation *vg_policy_explain(const vg_snapshot *snapshot,
                                  const struct vg_policy_config *config, const char *vm,
                                  GError **err);

#endif
