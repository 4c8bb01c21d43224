/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/proxy-move.h"

#include <string.h>

#include "base/error.h"

#define PROXY_MOVE_WHY_MAX 4096
#define NEEDED(name)       VG_ROW_STRING(name, VG_FIELD_REQUIRED, 1, VG_MIGRATION_NAME_MAX)

#define THIS vg_proxy_move_request
static const struct vg_field request_fields[] = {
    NEEDED(to),
    VG_ROW_BOOL(dry_run, 0),
    VG_ROW_STRING(plan_id, 0, 1, VG_MIGRATION_NAME_MAX),
};
const struct vg_record_type vg_proxy_move_request_record = VG_ROW_TYPE(request_fields);
#undef THIS

#define THIS vg_proxy_move
static const struct vg_field move_fields[] = {
    NEEDED(vm),
    NEEDED(uuid),
    NEEDED(to),
    VG_ROW_STRING(host, VG_FIELD_OMIT, 0, VG_MIGRATION_NAME_MAX),
    VG_ROW_STRING(gpu, VG_FIELD_OMIT, 0, VG_MIGRATION_NAME_MAX),
    VG_ROW_STRING(why, VG_FIELD_OMIT, 0, PROXY_MOVE_WHY_MAX),
    VG_ROW_BOOL(dry_run, VG_FIELD_OMIT),
    VG_ROW_PART(guest, 0, &vg_guest_programs_record),
};
const struct vg_record_type vg_proxy_move_record = VG_ROW_TYPE(move_fields);
#undef THIS

bool
vg_proxy_move_is_place(const char *to)
{
    return strcmp(to, VG_PROXY_PLACE_DIRECT) == 0 || vg_migration_is_place(to);
}

int
vg_proxy_move_check(const struct vg_proxy_move_request *request, GError **err)
{
    bool is_name = request->to[0] != '/' && !g_str_has_prefix(request->to, "proxy:");

    for (const char *at = request->to; is_name && *at; at++)
        is_name = !g_ascii_iscntrl(*at);
    if (is_name || vg_proxy_move_is_place(request->to))
        return 0;
    return vg_error(
        err, VG_E_INVALID,
        "'%s' is not \"direct\", the name of a GPU or host, or the address where programs in the "
        "guest reach a vgpu-proxy, such as \"proxy:/run/vgpu-proxy.sock\" or "
        "\"proxy:tcp:192.168.122.1:7000\", with at most %d bytes",
        request->to, VG_MIGRATION_PLACE_MAX - 1);
}

void
vg_proxy_move_request_free(void *request)
{
    if (request)
        vg_record_free(&vg_proxy_move_request_record, request);
}

void
vg_proxy_move_free(void *move)
{
    if (move)
        vg_record_free(&vg_proxy_move_record, move);
}
