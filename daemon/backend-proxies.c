/* SPDX-License-Identifier: Apache-2.0
 *
 * The proxies of OpenCL on this host: what VMs do by them, and how much of a GPU each gets.
 */
#include "config.h"

#include <string.h>

#include "base/error.h"
#include "daemon/backend-private.h"
#include "daemon/daemon-config.h"
#include "host/proxy-desk.h"

/* Appends the sockets of the proxy that is asked at path. One that is not there has none. */
static int
proxies_add(const char *path, GPtrArray *sockets, GError **err)
{
    GError *error = NULL;
    g_autoptr(vg_proxy_desk) desk = vg_proxy_desk_open(path, &error);
    g_autoptr(GPtrArray) list = desk ? vg_proxy_desk_list(desk, &error) : NULL;

    if (list) {
        g_ptr_array_extend_and_steal(sockets, g_steal_pointer(&list));
        return 0;
    }
    if (!desk && g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND)) {
        g_error_free(error);
        return 0;
    }
    g_propagate_error(err, error);
    return -1;
}

GPtrArray *
backend_list_proxies(void *data, GError **err)
{
    vg_daemon_backend *backend = data;
    pthread_mutex_lock(&backend->lock);
    g_auto(GStrv) paths = g_strsplit(backend->access->gpu_proxies, ",", -1);
    pthread_mutex_unlock(&backend->lock);
    g_autoptr(GPtrArray) sockets = g_ptr_array_new_with_free_func(vg_proxy_socket_free);

    for (unsigned i = 0; paths[i]; i++) {
        const char *path = g_strstrip(paths[i]);
        if (*path && proxies_add(path, sockets, err) < 0)
            return NULL;
    }
    return g_steal_pointer(&sockets);
}

GPtrArray *
backend_list_proxy_guests(void *data)
{
    const vg_daemon_backend *backend = data;

    return vg_proxy_teller_list(backend->teller);
}

/* Tells whether a socket is this VM's, which it may name by name or UUID. */
static bool
proxies_is_of(const struct vg_proxy_socket *socket, const char *id, const struct vg_inv_vm *vm)
{
    const char *name = socket->vm ? socket->vm : "";

    return *name && (strcmp(name, id) == 0 ||
                     (vm && (strcmp(name, vm->name) == 0 || g_strcmp0(name, vm->uuid) == 0)));
}

static int
proxies_limit(const struct vg_proxy_socket *socket, const struct vg_proxy_limit *limit,
              GError **err)
{
    g_autoptr(vg_proxy_desk) desk = vg_proxy_desk_open(socket->proxy, err);

    return desk ? vg_proxy_desk_set_weight(desk, socket->socket, limit->weight, err) : -1;
}

GPtrArray *
backend_limit_proxy(void *data, const char *id, const struct vg_proxy_limit *limit, GError **err)
{
    const vg_daemon_backend *backend = data;
    g_autoptr(vg_view) view = vg_node_view(backend->parts.node);
    const struct vg_inv_vm *vm = backend_find_here(view, id);
    g_autoptr(GPtrArray) sockets = backend_list_proxies(data, err);

    for (unsigned i = sockets ? sockets->len : 0; i > 0; i--) {
        struct vg_proxy_socket *socket = sockets->pdata[i - 1];
        if (!proxies_is_of(socket, id, vm)) {
            g_ptr_array_remove_index(sockets, i - 1);
            continue;
        }
        if (proxies_limit(socket, limit, err) < 0)
            return NULL;
        socket->weight = limit->weight;
    }
    if (sockets && sockets->len == 0) {
        vg_error(err, VG_E_NOT_FOUND, "no socket of a vgpu-proxy of this host is that of '%s'", id);
        return NULL;
    }
    return g_steal_pointer(&sockets);
}

struct vg_proxy_move *
backend_move_proxy(void *data, const char *id, const struct vg_proxy_move_request *request,
                   GError **err)
{
    const vg_daemon_backend *backend = data;
    g_autoptr(vg_view) view = vg_node_view(backend->parts.node);
    const struct vg_inv_vm *vm = backend_find_here(view, id);

    if (vm)
        return vg_mover_switch(backend->parts.mover, vm, request->to, err);
    vg_error(err, VG_E_NOT_FOUND, "libvirt of this host has no VM '%s'", id);
    return NULL;
}
