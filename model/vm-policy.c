/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/vm-policy.h"

#define THIS vg_vm_policy_request
static const struct vg_field vm_policy_fields[] = {
    VG_ROW_ENUM("mode", mode, VG_FIELD_REQUIRED, vg_policy_mode_names),
};
const struct vg_record_type vg_vm_policy_request_record = VG_ROW_TYPE(vm_policy_fields);
#undef THIS
