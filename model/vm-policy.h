/* SPDX-License-Identifier: Apache-2.0
 *
 * A request to set the policy's mode for a VM. Plain data.
 */
#ifndef VG_MODEL_VM_POLICY_H
#define VG_MODEL_VM_POLICY_H

#include "model/acting.h"

struct vg_vm_policy_request {
    enum vg_policy_mode mode; /* VG_POLICY_UNSET removes it */
};

extern const struct vg_record_type vg_vm_policy_request_record;

#endif
