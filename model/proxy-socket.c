/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/proxy-socket.h"

#define PROXY_TEXT_MAX 4096
#define COUNT(name)    VG_ROW_INT(name, 0, 0, 0x1p62)

#define THIS vg_proxy_took
static const struct vg_field took_fields[] = {
    COUNT(ns),
    COUNT(commands),
};
const struct vg_record_type vg_proxy_took_record = VG_ROW_TYPE(took_fields);
#undef THIS

#define THIS vg_proxy_socket
static const struct vg_field socket_fields[] = {
    VG_ROW_STRING(proxy, 0, 0, PROXY_TEXT_MAX),
    COUNT(pid),
    VG_ROW_STRING(socket, VG_FIELD_REQUIRED, 1, PROXY_TEXT_MAX),
    VG_ROW_STRING(vm, 0, 0, PROXY_TEXT_MAX),
    VG_ROW_STRING(device, 0, 0, PROXY_TEXT_MAX),
    VG_ROW_INT(weight, VG_FIELD_REQUIRED, 1, VG_PROXY_WEIGHT_MAX),
    COUNT(memory_bytes),
    COUNT(used_bytes),
    COUNT(clients),
    COUNT(held_ns),
    COUNT(turns),
    COUNT(ended),
    COUNT(commands),
    COUNT(done),
    COUNT(wait_ns),
    COUNT(run_ns),
    VG_ROW_LIST(took, 0, VG_PROXY_TOOK_MAX, &vg_proxy_took_record),
};
const struct vg_record_type vg_proxy_socket_record = VG_ROW_TYPE(socket_fields);
#undef THIS

#define THIS vg_proxy_guest
static const struct vg_field guest_fields[] = {
    VG_ROW_STRING(vm, VG_FIELD_REQUIRED, 1, PROXY_TEXT_MAX),
    VG_ROW_STRING(uuid, 0, 0, PROXY_TEXT_MAX),
    VG_ROW_STRING(address, VG_FIELD_REQUIRED, 1, PROXY_TEXT_MAX),
    VG_ROW_BOOL(told, VG_FIELD_REQUIRED),
    COUNT(told_ns),
    VG_ROW_STRING(reason, 0, 0, PROXY_TEXT_MAX),
};
const struct vg_record_type vg_proxy_guest_record = VG_ROW_TYPE(guest_fields);
#undef THIS

#define THIS vg_proxy_limit
static const struct vg_field limit_fields[] = {
    VG_ROW_INT(weight, VG_FIELD_REQUIRED, 1, VG_PROXY_WEIGHT_MAX),
};
const struct vg_record_type vg_proxy_limit_record = VG_ROW_TYPE(limit_fields);
#undef THIS

void
vg_proxy_guest_free(void *guest)
{
    if (guest)
        vg_record_free(&vg_proxy_guest_record, guest);
}

void
vg_proxy_socket_free(void *socket)
{
    if (socket)
        vg_record_free(&vg_proxy_socket_record, socket);
}

void
vg_proxy_limit_free(void *limit)
{
    if (limit)
        vg_record_free(&vg_proxy_limit_record, limit);
}
