/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the sockets for a request that names a GPU of this host, a host of the cluster, or both.
 * move/proxy-choice chooses among them.
 */
#include "config.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "cluster/peer-moves.h"
#include "daemon/backend-private.h"
#include "move/proxy-choice.h"
#include "mover/proxy-room.h"

#define ASK_LIMIT_NS (5 * VG_NS_PER_S)

char *
backend_proxy_paths(vg_daemon_backend *backend)
{
    VG_LOCK_SCOPE(&backend->lock);
    return g_strdup(backend->access->gpu_proxies);
}

GPtrArray *
backend_list_proxies(vg_daemon_backend *backend, GError **err)
{
    g_autofree char *proxies = backend_proxy_paths(backend);

    return vg_proxy_room_list(proxies, err);
}

static char *
place_list_hosts(vg_daemon_backend *backend)
{
    g_autoptr(GPtrArray) peers = vg_peers_list(backend->parts.peers);
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);

    vg_proxy_choice_add_name(names, vg_mover_host(backend->parts.mover));
    for (guint i = 0; i < peers->len; i++) {
        const struct vg_peer_info *peer = peers->pdata[i];
        vg_proxy_choice_add_name(names, peer->host ? peer->host : peer->name);
    }
    return vg_proxy_choice_join(names, "none");
}

/* Lists the sockets of a host. Fails with VG_E_NOT_FOUND if the cluster has no such host. */
static int
place_list_host(vg_daemon_backend *backend, const char *host, struct vg_proxy_choice *asked,
                GError **err)
{
    const char *own = vg_mover_host(backend->parts.mover);
    struct vg_peer_info *peer =
        strcmp(host, own) == 0 ? NULL : vg_peers_find(backend->parts.peers, host);

    if (strcmp(host, own) == 0) {
        asked->sockets = backend_list_proxies(backend, err);
    } else if (!peer) {
        g_autofree char *hosts = place_list_hosts(backend);
        return vg_error(err, VG_E_NOT_FOUND, "there is no host '%s'; known hosts: %s", host, hosts);
    } else if (vg_peers_check_host(peer, err) == 0) {
        asked->sockets = vg_peer_list_proxies(backend->parts.peers, peer->name, ASK_LIMIT_NS, err);
    }
    asked->is_far = peer != NULL;
    asked->host = g_strdup(peer && peer->host ? peer->host : host);
    asked->what = g_strdup_printf("host '%s'", asked->host);
    vg_peer_info_free(peer);
    if (asked->sockets)
        return 0;
    g_prefix_error(err, "cannot query the proxies of host '%s': ", asked->host);
    return -1;
}

GPtrArray *
backend_list_proxies_of(void *data, const char *host, GError **err)
{
    struct vg_proxy_choice asked = {.sockets = NULL};

    if (!host)
        return backend_list_proxies(data, err);
    GPtrArray *sockets =
        place_list_host(data, host, &asked, err) == 0 ? g_steal_pointer(&asked.sockets) : NULL;
    vg_proxy_choice_clear(&asked);
    return sockets;
}

/* Lists the sockets of "HOST/GPU". */
static int
place_list_both(vg_daemon_backend *backend, const char *name, struct vg_proxy_choice *asked,
                GError **err)
{
    const char *slash = strchr(name, '/');
    g_autofree char *host = g_strndup(name, (size_t)(slash - name));

    if (place_list_host(backend, host, asked, err) < 0 ||
        vg_proxy_choice_keep_gpu(asked, slash + 1, err) < 0)
        return -1;
    char *what = g_strdup_printf("GPU '%s' of %s", slash + 1, asked->what);
    g_free(asked->what);
    asked->what = what;
    return 0;
}

/* Lists the sockets of a GPU on this host, or of a host. */
static int
place_list(vg_daemon_backend *backend, const char *name, struct vg_proxy_choice *asked,
           GError **err)
{
    const char *own = vg_mover_host(backend->parts.mover);
    struct vg_peer_info *peer = vg_peers_find(backend->parts.peers, name);
    const bool is_host = peer || strcmp(name, own) == 0;
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) here = backend_list_proxies(backend, &error);
    const bool is_gpu = here && vg_proxy_choice_has_gpu(here, name);

    vg_peer_info_free(peer);
    if (is_gpu && is_host)
        return vg_error(err, VG_E_CONFLICT,
                        "'%s' is the name of both a GPU of this host and a host: use HOST/GPU",
                        name);
    if (is_host)
        return place_list_host(backend, name, asked, err);
    if (is_gpu) {
        asked->sockets = g_steal_pointer(&here);
        asked->host = g_strdup(own);
        asked->what = g_strdup_printf("GPU '%s' of this host", name);
        return vg_proxy_choice_keep_gpu(asked, name, err);
    }
    if (strchr(name, '/'))
        return place_list_both(backend, name, asked, err);
    g_autofree char *gpus = here ? vg_proxy_choice_list_gpus(here) : g_strdup(error->message);
    g_autofree char *hosts = place_list_hosts(backend);
    return vg_error(
        err, VG_E_NOT_FOUND,
        "'%s' is neither a GPU that a vgpu-proxy on this host serves (%s) nor a host (%s)", name,
        gpus, hosts);
}

int
backend_find_place(vg_daemon_backend *backend, const struct vg_inv_vm *vm, const char *name,
                   struct vg_proxy_move *move, GError **err)
{
    struct vg_proxy_choice asked = {.sockets = NULL};
    int status = place_list(backend, name, &asked, err);

    if (status == 0)
        status = vg_proxy_choice_choose(&asked, vm->name, vm->uuid, move, err);
    vg_proxy_choice_clear(&asked);
    return status;
}
