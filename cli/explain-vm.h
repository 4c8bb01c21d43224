/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VG_CLI_EXPLAIN_VM_H
#define VG_CLI_EXPLAIN_VM_H

#include "cli/output.h"
#include "model/snapshot.h"
#include "policy/policy-conf.h"

/* Prints the policy's assessment of every host for one VM (a UUID, HOST/NAME, or a name). */
int vg_explain_vm(const vg_snapshot *snapshot, const struct vg_policy_config *config,
                  const char *vm, enum vg_output_format format, GError **err);

#endif
