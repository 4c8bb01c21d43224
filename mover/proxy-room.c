/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "mover/proxy-room.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "host/proxy-control.h"

/* This limit may exceed that of the collector, as the callers can wait. */
#define ROOM_ANSWER_NS (2 * VG_NS_PER_S)

/* Splits the list of control sockets. The caller frees the result. */
static GStrv
room_paths(const char *proxies)
{
    GStrv paths = g_strsplit(proxies, ",", -1);

    for (unsigned i = 0; paths[i]; i++)
        g_strstrip(paths[i]);
    return paths;
}

/* Connects to a proxy. *ret is NULL if none is running. */
static int
room_open(const char *path, vg_proxy_control **ret, GError **err)
{
    GError *error = NULL;

    *ret = *path ? vg_proxy_control_open(path, ROOM_ANSWER_NS, &error) : NULL;
    if (error && g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND))
        g_clear_error(&error);
    if (!error)
        return 0;
    g_propagate_error(err, error);
    return -1;
}

GPtrArray *
vg_proxy_room_list(const char *proxies, GError **err)
{
    g_auto(GStrv) paths = room_paths(proxies);
    g_autoptr(GPtrArray) sockets = g_ptr_array_new_with_free_func(vg_proxy_socket_free);

    for (unsigned i = 0; paths[i]; i++) {
        g_autoptr(vg_proxy_control) control = NULL;
        if (room_open(paths[i], &control, err) < 0)
            return NULL;
        g_autoptr(GPtrArray) list = control ? vg_proxy_control_list(control, err) : NULL;
        if (control && !list)
            return NULL;
        if (list)
            g_ptr_array_extend_and_steal(sockets, g_steal_pointer(&list));
    }
    return g_steal_pointer(&sockets);
}

/* Finds a proxy's socket by name or address. Returns NULL if it has none or on error (*err). The
 * caller frees the result. */
static struct vg_proxy_socket *
room_find(vg_proxy_control *control, const char *name, GError **err)
{
    g_autoptr(GPtrArray) sockets = vg_proxy_control_list(control, err);

    for (guint i = 0; sockets && i < sockets->len; i++) {
        const struct vg_proxy_socket *socket = sockets->pdata[i];
        if (strcmp(socket->socket, name) == 0 || strcmp(socket->address, name) == 0)
            return g_ptr_array_steal_index(sockets, i);
    }
    return NULL;
}

/* Finds the proxy that has a socket. If none has it, *ret is NULL, and *err may report a proxy that
 * could not be checked. Fails with VG_E_REFUSED if several proxies have it, as a path relative to
 * each one's directory. */
static int
room_find_all(const GStrv paths, const char *name, vg_proxy_control **ret_control,
              struct vg_proxy_socket **ret, GError **err)
{
    GError *error = NULL;

    for (unsigned i = 0; paths[i]; i++) {
        g_autoptr(vg_proxy_control) control = NULL;
        GError **first = error ? NULL : &error;
        struct vg_proxy_socket *socket = room_open(paths[i], &control, first) == 0 && control
                                             ? room_find(control, name, first)
                                             : NULL;
        if (!socket)
            continue;
        /* Two paths may lead to the same proxy. */
        if (*ret && socket->pid != (*ret)->pid) {
            vg_error(err, VG_E_REFUSED,
                     "two vgpu-proxies on this host have the socket '%s': those with the control "
                     "sockets %s and %s",
                     name, (*ret)->proxy, socket->proxy);
            vg_proxy_socket_free(socket);
            g_clear_error(&error);
            return -1;
        }
        if (*ret) {
            vg_proxy_socket_free(socket);
            continue;
        }
        *ret = socket;
        *ret_control = g_steal_pointer(&control);
    }
    if (*ret)
        g_clear_error(&error);
    if (!error)
        return 0;
    g_propagate_error(err, error);
    return -1;
}

int
vg_proxy_room_reserve(const char *proxies, const struct vg_proxy_room *room, GError **err)
{
    g_auto(GStrv) paths = room_paths(proxies);
    g_autoptr(vg_proxy_control) control = NULL;
    struct vg_proxy_socket *socket = NULL;
    int status = room_find_all(paths, room->socket, &control, &socket, err);

    if (status == 0)
        status = socket ? vg_proxy_control_reserve(control, socket->socket, room, err)
                        : vg_error(err, VG_E_NOT_FOUND,
                                   "no vgpu-proxy on this host has the socket '%s'", room->socket);
    vg_proxy_socket_free(socket);
    return status;
}

int
vg_proxy_room_release(const char *proxies, const char *id, GError **err)
{
    g_auto(GStrv) paths = room_paths(proxies);
    GError *error = NULL;

    for (unsigned i = 0; paths[i]; i++) {
        g_autoptr(vg_proxy_control) control = NULL;
        g_autoptr(GError) one = NULL;
        if (room_open(paths[i], &control, &one) == 0 &&
            (!control || vg_proxy_control_release(control, id, &one) == 0)) {
            if (!control)
                continue;
            g_clear_error(&error);
            return 0;
        }
        if (!error && !g_error_matches(one, VG_ERROR, VG_E_NOT_FOUND))
            error = g_steal_pointer(&one);
    }
    if (!error)
        return vg_error(err, VG_E_NOT_FOUND, "no vgpu-proxy on this host has a reservation '%s'",
                        id);
    g_propagate_error(err, error);
    return -1;
}
