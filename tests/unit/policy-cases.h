/* SPDX-License-Identifier: Apache-2.0
 *
 * Small clusters for the tests of the policy.
 */
#ifndef VG_TESTS_POLICY_CASES_H
#define VG_TESTS_POLICY_CASES_H

#include "policy/policy.h"

#define S   INT64_C(1000000000)
#define GIB (INT64_C(1) << 30)

/* Of the running test; policy_set_up() sets it to the defaults. */
extern struct vg_policy_config policy_config;

int policy_set_up(void **state);
struct vg_snap_vm *policy_add_vm(struct vg_snap_host *host, const char *name, double cores,
                                 int32_t cpu);
void policy_add_use(struct vg_snap_vm *vm, const char *device, const char *type, double share);
struct vg_snap_gpu *policy_add_gpu(struct vg_snap_host *host, const char *device, const char *type,
                                   int64_t n_free);
struct vg_snap_host *policy_add_host(vg_snapshot *snapshot, const char *name, int64_t cpus);
vg_plan *policy_plan_of(vg_snapshot *snapshot, enum vg_rule_id rule);
void policy_assert_near(double value, double expected);
double policy_input_of(const struct vg_plan_action *action, const char *name);
bool policy_says(const GPtrArray *sentences, const char *part);
vg_snapshot *policy_make_pair(struct vg_snap_host **ret_from, struct vg_snap_host **ret_to);
void policy_set_profile(struct vg_snap_vm *vm, const double *cpu, guint n);

#endif
