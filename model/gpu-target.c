/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/gpu-target.h"

#include "model/snapshot.h"

#define THIS vg_gpu_target
static const struct vg_field target_fields[] = {
    VG_ROW_STRING(type, VG_FIELD_REQUIRED, 1, VG_SNAPSHOT_NAME_MAX),
    VG_ROW_STRING(from, VG_FIELD_REQUIRED, 1, VG_SNAPSHOT_NAME_MAX),
    VG_ROW_STRING(to, 0, 1, VG_SNAPSHOT_NAME_MAX),
};
const struct vg_record_type vg_gpu_target_record = VG_ROW_TYPE(target_fields);
#undef THIS
