/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/path.h"

#define THIS vg_path_need
static const struct vg_field path_need_fields[] = {
    VG_ROW_STRING(path, VG_FIELD_REQUIRED, 1, VG_PATH_BYTES_MAX),
    VG_ROW_STRING(use, VG_FIELD_REQUIRED, 1, VG_PATH_TEXT_MAX),
    VG_ROW_BOOL(writable, 0),
    VG_ROW_BOOL(is_device, 0),
    VG_ROW_BOOL(is_storage, 0),
    VG_ROW_BOOL(optional, 0),
};
const struct vg_record_type vg_path_need_record = VG_ROW_TYPE(path_need_fields);
#undef THIS

void
vg_path_need_free(void *need)
{
    if (need)
        vg_record_free(&vg_path_need_record, need);
}
