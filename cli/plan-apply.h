/* SPDX-License-Identifier: Apache-2.0
 *
 * vgpuctl plan apply: the moves of a plan, one after the other.
 */
#ifndef VG_CLI_PLAN_APPLY_H
#define VG_CLI_PLAN_APPLY_H

#include <stdbool.h>

#include "cli/output.h"
#include "client/client.h"

struct vg_plan_apply {
    const char *plan; /* its id */
    bool dry_run;     /* only check whether anything prevents each move */
    bool yes;         /* do not ask for confirmation */
    enum vg_output_format format;
};

/* Stops at the first move that fails. */
int vg_plan_apply_run(const struct vg_plan_apply *apply, vg_client *client,
                      GError **err) G_GNUC_WARN_UNUSED_RESULT;

#endif
