/* SPDX-License-Identifier: Apache-2.0
 *
 * Carries out a plan's proposals for programs on a vgpu-proxy, checks the results, and reverts
 * changes that made things worse.
 */
#ifndef VG_CLI_PLAN_PROXY_H
#define VG_CLI_PLAN_PROXY_H

#include "cli/plan-apply.h"
#include "model/plan.h"

/* Carries out the proposals, or in a dry run checks them, until one fails. Appends each result to
 * results. Returns -1 if a proposal failed or was reverted. */
int vg_plan_proxy_apply(const struct vg_plan_apply *apply, vg_client *client, const vg_plan *plan,
                        json_object *results, GError **err);

#endif
