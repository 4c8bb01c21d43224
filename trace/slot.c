/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include <string.h>

#include "trace/adapter.h"

bool
vg_binding_int(const struct vg_binding *binding, enum vg_slot slot, const void *record,
               int64_t *ret_value)
{
    int handle = binding->handle[slot];

    return handle >= 0 && binding->reader->get_int(record, handle, ret_value);
}

bool
vg_binding_str(const struct vg_binding *binding, enum vg_slot slot, const void *record, char *buf,
               size_t size)
{
    int handle = binding->handle[slot];

    if (handle >= 0 && binding->reader->get_str(record, handle, buf, size))
        return true;
    memset(buf, 0, size);
    return false;
}

bool
vg_binding_tid(const struct vg_binding *binding, enum vg_slot slot, const void *record,
               int32_t *ret_tid)
{
    int64_t value;

    if (!vg_binding_int(binding, slot, record, &value) || value < 0 || value > VG_TID_LIMIT)
        return false;
    *ret_tid = (int32_t)value;
    return true;
}
