/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "model/proxy-socket.h"

#include <string.h>

#include "base/error.h"

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
    VG_ROW_STRING(confinement, 0, 0, PROXY_TEXT_MAX),
    VG_ROW_STRING(socket, VG_FIELD_REQUIRED, 1, PROXY_TEXT_MAX),
    VG_ROW_STRING(vm, 0, 0, PROXY_TEXT_MAX),
    VG_ROW_STRING(device, 0, 0, PROXY_TEXT_MAX),
    VG_ROW_STRING(open_secrets, 0, 0, PROXY_TEXT_MAX),
    VG_ROW_STRING(address, 0, 0, PROXY_TEXT_MAX),
    VG_ROW_STRING(gpu, 0, 0, PROXY_TEXT_MAX),
    VG_ROW_STRING(gpu_name, 0, 0, PROXY_TEXT_MAX),
    COUNT(gpus),
    COUNT(gpu_memory_bytes),
    VG_ROW_INT(weight, VG_FIELD_REQUIRED, 1, VG_PROXY_WEIGHT_MAX),
    VG_ROW_INT(configured_weight, 0, 0, VG_PROXY_WEIGHT_MAX),
    COUNT(memory_bytes),
    COUNT(vm_memory_bytes),
    COUNT(used_bytes),
    COUNT(reserved_bytes),
    COUNT(clients),
    COUNT(held_ns),
    COUNT(lacked_ns),
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

#define THIS vg_proxy_device
static const struct vg_field proxy_device_fields[] = {
    VG_ROW_STRING(name, VG_FIELD_REQUIRED, 0, PROXY_TEXT_MAX),
    VG_ROW_STRING(pci, 0, 0, PROXY_TEXT_MAX),
    COUNT(memory_bytes),
};
static const struct vg_record_type proxy_device_record = VG_ROW_TYPE(proxy_device_fields);
#undef THIS

#define THIS vg_proxy_report
static const struct vg_field told_fields[] = {
    VG_ROW_INT(pid, VG_FIELD_REQUIRED, 1, INT32_MAX),
    VG_ROW_STRING(confinement, 0, 0, PROXY_TEXT_MAX),
    VG_ROW_LIST(devices, 0, VG_PROXY_DEVICES_MAX, &proxy_device_record),
    VG_ROW_LIST(sockets, 0, VG_PROXY_SOCKETS_MAX, &vg_proxy_socket_record),
};
const struct vg_record_type vg_proxy_report_record = VG_ROW_TYPE(told_fields);
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
    VG_ROW_STRING(plan_id, 0, 1, 255),
    VG_ROW_BOOL(dry_run, 0),
};
const struct vg_record_type vg_proxy_limit_record = VG_ROW_TYPE(limit_fields);
#undef THIS

#define THIS vg_proxy_room
static const struct vg_field room_fields[] = {
    VG_ROW_STRING(id, VG_FIELD_REQUIRED, 1, 63),
    VG_ROW_STRING(socket, VG_FIELD_REQUIRED, 1, PROXY_TEXT_MAX),
    VG_ROW_INT(seconds, VG_FIELD_REQUIRED, 1, VG_PROXY_ROOM_S_MAX),
    VG_ROW_INT(memory_bytes, VG_FIELD_REQUIRED, 1, 0x1p52),
};
const struct vg_record_type vg_proxy_room_record = VG_ROW_TYPE(room_fields);
#undef THIS

/* Returns the address through which guests reach a socket that listens at this address. The caller
 * frees it.
 */
static char *
proxy_socket_address(const char *socket)
{
    static const char *const own[] = {"0.0.0.0:", "127.", "localhost:", "["};
    static const char vsock[] = "vsock:";

    /* The host's CID is 2. */
    if (g_str_has_prefix(socket, vsock))
        return g_strconcat("vsock:2:", socket + strlen(vsock), NULL);
    bool ok = vg_proxy_address_is_far(socket);
    for (size_t i = 0; ok && i < G_N_ELEMENTS(own); i++)
        ok = !g_str_has_prefix(socket + strlen("tcp:"), own[i]);
    return g_strdup(ok ? socket : "");
}

void
vg_proxy_socket_complete(struct vg_proxy_socket *socket, const struct vg_proxy_report *told,
                         const char *proxy)
{
    const struct vg_proxy_device *only = told->devices->len == 1 ? told->devices->pdata[0] : NULL;

    g_free(socket->proxy);
    g_free(socket->confinement);
    g_free(socket->address);
    g_free(socket->gpu);
    g_free(socket->gpu_name);
    socket->proxy = g_strdup(proxy);
    socket->pid = told->pid;
    socket->confinement = g_strdup(told->confinement ? told->confinement : "");
    socket->address = proxy_socket_address(socket->socket);
    socket->gpus = told->devices->len;
    socket->gpu = g_strdup(!only ? "" : only->pci && only->pci[0] ? only->pci : only->name);
    socket->gpu_name = g_strdup(only ? only->name : "");
    socket->gpu_memory_bytes = only ? only->memory_bytes : 0;
}

bool
vg_proxy_address_is_far(const char *address)
{
    return g_str_has_prefix(address, "tcp:") || g_str_has_prefix(address, "tls:");
}

bool
vg_proxy_room_is_id(const char *id)
{
    const char *at = id;

    while (g_ascii_isgraph(*at))
        at++;
    return at > id && !*at;
}

int
vg_proxy_room_check(const struct vg_proxy_room *room, GError **err)
{
    if (vg_proxy_room_is_id(room->id))
        return 0;
    return vg_error(err, VG_E_INVALID, "a reservation ID must not contain spaces");
}

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
vg_proxy_room_free(void *room)
{
    if (room)
        vg_record_free(&vg_proxy_room_record, room);
}

void
vg_proxy_limit_free(void *limit)
{
    if (limit)
        vg_record_free(&vg_proxy_limit_record, limit);
}
