/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/reservation.h"

#define NEEDED(member) VG_ROW_STRING(member, VG_FIELD_REQUIRED, 1, VG_MIGRATION_TEXT_MAX)
#define TEXT(member)   VG_ROW_STRING(member, 0, 0, VG_MIGRATION_TEXT_MAX)

#define THIS vg_reservation
static const struct vg_field reservation_fields[] = {
    TEXT(id),
    NEEDED(move_id),
    NEEDED(vm),
    NEEDED(uuid),
    NEEDED(from),
    TEXT(asked_by),
    VG_ROW_BOOL(dry_run, 0),
    VG_ROW_INT(lease_s, VG_FIELD_REQUIRED, VG_LEASE_MIN_S, VG_LEASE_MAX_S),
    VG_ROW_INT(made_ns, 0, 0, (double)VG_JSON_INT_MAX),
    VG_ROW_INT(expires_ns, 0, 0, (double)VG_JSON_INT_MAX),
    VG_ROW_LIST(devices, VG_FIELD_REQUIRED, VG_MIGRATION_DEVICES_MAX, &vg_move_device_record),
};
const struct vg_record_type vg_reservation_record = VG_ROW_TYPE(reservation_fields);
#undef THIS

struct vg_reservation *
vg_reservation_new(void)
{
    return vg_record_new(&vg_reservation_record);
}

void
vg_reservation_free(void *reservation)
{
    if (reservation)
        vg_record_free(&vg_reservation_record, reservation);
}

struct vg_reservation *
vg_reservation_copy(const struct vg_reservation *reservation)
{
    return vg_record_copy(&vg_reservation_record, reservation);
}
