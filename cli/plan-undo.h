/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves VMs back to their former hosts.
 */
#ifndef VG_CLI_PLAN_UNDO_H
#define VG_CLI_PLAN_UNDO_H

#include "cli/plan-apply.h"
#include "model/migration.h"

/* Creates the request that moves the VM of a move back. The caller releases it with
 * json_object_put(). Only a VM that has arrived with its GPUs can be moved back. Otherwise this
 * fails with VG_E_REFUSED. */
json_object *vg_plan_undo_body(const vg_migration *move, GError **err);

/* Reverses the moves of a plan that made things worse, newest first, until a move fails. */
int vg_plan_undo_run(const struct vg_plan_apply *undo, vg_client *client,
                     GError **err) G_GNUC_WARN_UNUSED_RESULT;

#endif
