/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the proxy that is meant where somebody names a GPU of this host, or a host of the cluster,
 * at which programs of a VM are to go on. Where that is not clear, nothing is chosen.
 */
#include "config.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "cluster/peer-moves.h"
#include "daemon/backend-private.h"
#include "model/vm-name.h"

#define ASK_LIMIT_NS (5 * VG_NS_PER_S)
#define NAMED_MAX    8u /* in one sentence */

/* Where programs of a VM could go. */
struct place_asked {
    const struct vg_inv_vm *vm;
    GPtrArray *sockets; /* struct vg_proxy_socket, of one host; owned */
    char *host;         /* whose sockets they are */
    char *what;         /* "GPU 'X' of this host", "host 'h2'" */
    bool is_far;        /* it is another host than the VM's */
};

static void
place_clear(struct place_asked *asked)
{
    if (asked->sockets)
        g_ptr_array_unref(asked->sockets);
    g_free(asked->host);
    g_free(asked->what);
}

/* ---- naming what there is ---- */

/* Appends a name, unless it is in there or there are too many. */
static void
place_name(GPtrArray *names, const char *name)
{
    if (name && *name && names->len < NAMED_MAX &&
        !g_ptr_array_find_with_equal_func(names, name, g_str_equal, NULL))
        g_ptr_array_add(names, g_strdup(name));
}

/* Joins names as "a, b", or says `none`. The caller frees it. */
static char *
place_join(GPtrArray *names, const char *none)
{
    if (names->len == 0)
        return g_strdup(none);
    g_ptr_array_add(names, NULL);
    return g_strjoinv(", ", (char **)names->pdata);
}

/* The sockets, each with its GPU. */
static char *
place_list(const GPtrArray *sockets)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);

    for (guint i = 0; i < sockets->len; i++) {
        const struct vg_proxy_socket *socket = sockets->pdata[i];
        g_autofree char *text =
            g_strdup_printf("%s (%s%s)", socket->socket,
                            socket->gpu[0] ? "GPU " : "its GPU is not known", socket->gpu);
        place_name(names, text);
    }
    return place_join(names, "none");
}

static char *
place_list_gpus(const GPtrArray *sockets)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);

    for (guint i = 0; i < sockets->len; i++)
        place_name(names, ((const struct vg_proxy_socket *)sockets->pdata[i])->gpu);
    return place_join(names, "none");
}

static char *
place_list_vms(const GPtrArray *sockets)
{
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);

    for (guint i = 0; i < sockets->len; i++)
        place_name(names, ((const struct vg_proxy_socket *)sockets->pdata[i])->vm);
    return place_join(names, "nobody");
}

static char *
place_list_hosts(vg_daemon_backend *backend)
{
    g_autoptr(GPtrArray) peers = vg_peers_list(backend->parts.peers);
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);

    place_name(names, vg_mover_host(backend->parts.mover));
    for (guint i = 0; i < peers->len; i++) {
        const struct vg_peer_info *peer = peers->pdata[i];
        place_name(names, peer->host ? peer->host : peer->name);
    }
    return place_join(names, "none");
}

/* ---- which sockets are meant ---- */

static bool
place_is_gpu(const struct vg_proxy_socket *socket, const char *gpu)
{
    return socket->gpu[0] && (g_ascii_strcasecmp(socket->gpu, gpu) == 0 ||
                              g_ascii_strcasecmp(socket->gpu_name, gpu) == 0);
}

static bool
place_has_gpu(const GPtrArray *sockets, const char *gpu)
{
    for (guint i = 0; i < sockets->len; i++) {
        if (place_is_gpu(sockets->pdata[i], gpu))
            return true;
    }
    return false;
}

/* Leaves only the sockets of a GPU. VG_E_NOT_FOUND: there is none. */
static int
place_keep_gpu(struct place_asked *asked, const char *gpu, GError **err)
{
    if (!place_has_gpu(asked->sockets, gpu)) {
        g_autofree char *gpus = place_list_gpus(asked->sockets);
        return vg_error(err, VG_E_NOT_FOUND,
                        "no vgpu-proxy of %s serves a GPU '%s'; GPUs that one is known to serve "
                        "there: %s",
                        asked->what, gpu, gpus);
    }
    for (guint i = asked->sockets->len; i > 0; i--) {
        if (!place_is_gpu(asked->sockets->pdata[i - 1], gpu))
            g_ptr_array_remove_index(asked->sockets, i - 1);
    }
    return 0;
}

/* Takes the sockets of a host. VG_E_NOT_FOUND: the cluster has no such host. */
static int
place_ask_host(vg_daemon_backend *backend, const char *host, struct place_asked *asked,
               GError **err)
{
    const char *own = vg_mover_host(backend->parts.mover);
    struct vg_peer_info *peer =
        strcmp(host, own) == 0 ? NULL : vg_peers_find(backend->parts.peers, host);

    if (strcmp(host, own) == 0) {
        asked->sockets = backend_list_proxies(backend, err);
    } else if (!peer) {
        g_autofree char *hosts = place_list_hosts(backend);
        return vg_error(err, VG_E_NOT_FOUND, "there is no host '%s'; those that are known: %s",
                        host, hosts);
    } else if (vg_peers_check_host(peer, err) == 0) {
        asked->sockets = vg_peer_list_proxies(backend->parts.peers, peer->name, ASK_LIMIT_NS, err);
    }
    asked->is_far = peer != NULL;
    asked->host = g_strdup(peer && peer->host ? peer->host : host);
    asked->what = g_strdup_printf("host '%s'", asked->host);
    vg_peer_info_free(peer);
    if (asked->sockets)
        return 0;
    g_prefix_error(err, "the proxies of host '%s' cannot be asked: ", asked->host);
    return -1;
}

GPtrArray *
backend_list_proxies_of(void *data, const char *host, GError **err)
{
    struct place_asked asked = {.vm = NULL};

    if (!host)
        return backend_list_proxies(data, err);
    GPtrArray *sockets =
        place_ask_host(data, host, &asked, err) == 0 ? g_steal_pointer(&asked.sockets) : NULL;
    place_clear(&asked);
    return sockets;
}

/* Takes "HOST/GPU". */
static int
place_ask_both(vg_daemon_backend *backend, const char *name, struct place_asked *asked,
               GError **err)
{
    const char *slash = strchr(name, '/');
    g_autofree char *host = g_strndup(name, (size_t)(slash - name));

    if (place_ask_host(backend, host, asked, err) < 0 || place_keep_gpu(asked, slash + 1, err) < 0)
        return -1;
    char *what = g_strdup_printf("GPU '%s' of %s", slash + 1, asked->what);
    g_free(asked->what);
    asked->what = what;
    return 0;
}

/* Takes what is called so, of this host or another one. */
static int
place_ask(vg_daemon_backend *backend, const char *name, struct place_asked *asked, GError **err)
{
    const char *own = vg_mover_host(backend->parts.mover);
    struct vg_peer_info *peer = vg_peers_find(backend->parts.peers, name);
    const bool is_host = peer || strcmp(name, own) == 0;
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) here = backend_list_proxies(backend, &error);
    const bool is_gpu = here && place_has_gpu(here, name);

    vg_peer_info_free(peer);
    if (is_gpu && is_host)
        return vg_error(err, VG_E_CONFLICT,
                        "'%s' is a GPU of this host and a host as well: say HOST/GPU", name);
    if (is_host)
        return place_ask_host(backend, name, asked, err);
    if (is_gpu) {
        asked->sockets = g_steal_pointer(&here);
        asked->host = g_strdup(own);
        asked->what = g_strdup_printf("GPU '%s' of this host", name);
        return place_keep_gpu(asked, name, err);
    }
    if (strchr(name, '/'))
        return place_ask_both(backend, name, asked, err);
    g_autofree char *gpus = here ? place_list_gpus(here) : g_strdup(error->message);
    g_autofree char *hosts = place_list_hosts(backend);
    return vg_error(err, VG_E_NOT_FOUND,
                    "'%s' is neither a GPU that a vgpu-proxy of this host is known to serve (%s) "
                    "nor a host (%s)",
                    name, gpus, hosts);
}

/* Leaves only the VM's sockets that its programs reach. */
static int
place_keep_vm(struct place_asked *asked, GError **err)
{
    g_autofree char *vms = place_list_vms(asked->sockets);
    g_autofree char *unreached = NULL;

    for (guint i = asked->sockets->len; i > 0; i--) {
        const struct vg_proxy_socket *socket = asked->sockets->pdata[i - 1];
        const bool is_of = vg_vm_is(socket->vm, asked->vm->name, asked->vm->uuid);
        const bool is_reached =
            socket->address[0] && (!asked->is_far || vg_proxy_address_is_far(socket->address));
        if (is_of && is_reached)
            continue;
        if (is_of && !unreached)
            unreached = g_strdup(socket->socket);
        g_ptr_array_remove_index(asked->sockets, i - 1);
    }
    if (asked->sockets->len > 0)
        return 0;
    if (unreached)
        return vg_error(err, VG_E_REFUSED,
                        "the socket of '%s' at %s, %s, is not reached by its programs: it must be "
                        "tcp: with an address of that host%s",
                        asked->vm->name, asked->what, unreached,
                        asked->is_far ? "" : ", or vsock:");
    return vg_error(err, VG_E_REFUSED,
                    "no vgpu-proxy of %s that is asked there has a socket for '%s'; there are "
                    "sockets for %s",
                    asked->what, asked->vm->name, vms);
}

static void
place_take(const struct place_asked *asked, struct vg_proxy_move *move)
{
    const struct vg_proxy_socket *socket = asked->sockets->pdata[0];

    g_free(move->to);
    move->to = g_strconcat("proxy:", socket->address, NULL);
    move->host = g_strdup(asked->host);
    move->gpu = g_strdup(socket->gpu);
    move->why = g_strdup_printf(
        "the vgpu-proxy that is asked at %s on host '%s' has it for this "
        "VM, and %s%s",
        socket->proxy, asked->host,
        socket->gpu[0] ? "serves GPU " : "does not tell which GPU it serves", socket->gpu);
}

int
backend_find_place(vg_daemon_backend *backend, const struct vg_inv_vm *vm, const char *name,
                   struct vg_proxy_move *move, GError **err)
{
    struct place_asked asked = {.vm = vm};
    int status = place_ask(backend, name, &asked, err);

    if (status == 0)
        status = place_keep_vm(&asked, err);
    if (status == 0 && asked.sockets->len > 1) {
        g_autofree char *list = place_list(asked.sockets);
        status = vg_error(err, VG_E_CONFLICT,
                          "%s has %u sockets for '%s': %s; say HOST/GPU, or the address",
                          asked.what, asked.sockets->len, vm->name, list);
    }
    if (status == 0)
        place_take(&asked, move);
    place_clear(&asked);
    return status;
}
