/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/vulkan.h"

#include "base/error.h"
#include "model/snapshot.h"

#define VULKAN_PATH_MAX  4096
#define VULKAN_LINE_MAX  65536
#define VULKAN_LINES_MAX 4096

#define THIS vg_vulkan_request
static const struct vg_field vulkan_request_fields[] = {
    VG_ROW_BOOL(enabled, VG_FIELD_REQUIRED),
    VG_ROW_INT(hostmem_bytes, 0, 0, (double)VG_VULKAN_HOSTMEM_MAX),
    VG_ROW_STRING(render_node, 0, 1, VULKAN_PATH_MAX),
    VG_ROW_BOOL(loosen_sandbox, 0),
    VG_ROW_BOOL(dry_run, 0),
};
const struct vg_record_type vg_vulkan_request_record = VG_ROW_TYPE(vulkan_request_fields);
#undef THIS

#define THIS vg_vulkan_change
static const struct vg_field vulkan_change_fields[] = {
    VG_ROW_STRING(vm, VG_FIELD_REQUIRED, 1, VG_SNAPSHOT_NAME_MAX),
    VG_ROW_STRING(uuid, 0, 0, VG_SNAPSHOT_NAME_MAX),
    VG_ROW_BOOL(enabled, 0),
    VG_ROW_BOOL(dry_run, 0),
    VG_ROW_BOOL(changed, 0),
    VG_ROW_BOOL(running, 0),
    VG_ROW_INT(hostmem_bytes, 0, 0, (double)VG_VULKAN_HOSTMEM_MAX),
    VG_ROW_STRINGS(changes, 0, VULKAN_LINE_MAX, VULKAN_LINES_MAX),
    VG_ROW_STRINGS(notes, 0, VULKAN_LINE_MAX, VULKAN_LINES_MAX),
};
const struct vg_record_type vg_vulkan_change_record = VG_ROW_TYPE(vulkan_change_fields);
#undef THIS

int
vg_vulkan_request_check(const struct vg_vulkan_request *request, GError **err)
{
    const int64_t bytes = request->hostmem_bytes;

    if (!request->enabled && (bytes > 0 || request->render_node || request->loosen_sandbox))
        return vg_error(err, VG_E_INVALID,
                        "hostmem_bytes, render_node and loosen_sandbox require enabled=true");
    if (request->render_node && !g_str_has_prefix(request->render_node, "/dev/dri/renderD"))
        return vg_error(err, VG_E_INVALID,
                        "render_node '%s' is not one of /dev/dri/renderD128, renderD129, ...",
                        request->render_node);
    if (bytes == 0 || (bytes >= VG_VULKAN_HOSTMEM_MIN && bytes <= VG_VULKAN_HOSTMEM_MAX &&
                       (bytes & (bytes - 1)) == 0))
        return 0;
    return vg_error(err, VG_E_INVALID,
                    "hostmem of %" G_GINT64_FORMAT " bytes is invalid: like the size of a PCI BAR, "
                    "it must be a power of two from 16 MiB to 1 TiB",
                    bytes);
}

void
vg_vulkan_request_free(void *request)
{
    if (request)
        vg_record_free(&vg_vulkan_request_record, request);
}

vg_vulkan_change *
vg_vulkan_change_new(void)
{
    return vg_record_new(&vg_vulkan_change_record);
}

void
vg_vulkan_change_free(vg_vulkan_change *change)
{
    if (change)
        vg_record_free(&vg_vulkan_change_record, change);
}
