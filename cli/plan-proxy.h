/* SPDX-License-Identifier: Apache-2.0
 *
 * Carries out what a plan proposes for programs that are at a vgpu-proxy, looks what came of it,
 * and takes back what has made it worse.
 */
#ifndef VG_CLI_PLAN_PROXY_H
#define VG_CLI_PLAN_PROXY_H

#include "cli/plan-apply.h"
#include "model/plan.h"

/* Does, or in a dry run checks, one after the other until one cannot be done. Appends to results
 * what came of each. -1: one was not done, or was taken back. */
int vg_plan_proxy_apply(const struct vg_plan_apply *apply, vg_client *client, const vg_plan *plan,
                        json_object *results, GError **err);

#endif
