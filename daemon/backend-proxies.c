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
#include "policy/drift.h"

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

/* ---- where programs go on while their VM moves ---- */

/* Appends the place of a VM that [proxy VM] names, if programs reach it on the other host, too. */
static char *
proxies_place_of_group(vg_daemon_backend *backend, const struct vg_inv_vm *vm, GString *why)
{
    g_autoptr(GPtrArray) guests = vg_proxy_teller_list(backend->teller);

    for (guint i = 0; i < guests->len; i++) {
        const struct vg_proxy_guest *guest = guests->pdata[i];
        if (!vg_drift_is_vm(guest->vm, vm->name, vm->uuid) ||
            !(g_str_has_prefix(guest->address, "tcp:") || g_str_has_prefix(guest->address, "tls:")))
            continue;
        g_string_append_printf(why, "[proxy %s] in vgpud.conf names it", guest->vm);
        if (!guest->told)
            g_string_append_printf(why, ", but its guest does not know the token yet: %s",
                                   guest->reason && *guest->reason ? guest->reason
                                                                   : "it was not told");
        return g_strconcat("proxy:", guest->address, NULL);
    }
    return NULL;
}

/* Tells whether programs of other machines reach a socket at the address at which it listens. */
static bool
proxies_is_reached(const char *socket)
{
    if (!g_str_has_prefix(socket, "tcp:") && !g_str_has_prefix(socket, "tls:"))
        return false;
    const char *host = socket + strlen("tcp:");
    return !g_str_has_prefix(host, "0.0.0.0:") && !g_str_has_prefix(host, "127.") &&
           !g_str_has_prefix(host, "localhost:") && !g_str_has_prefix(host, "[");
}

static char *
proxies_place_of_socket(vg_daemon_backend *backend, const struct vg_inv_vm *vm, GString *why)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) sockets = backend_list_proxies(backend, &error);

    for (guint i = 0; sockets && i < sockets->len; i++) {
        const struct vg_proxy_socket *socket = sockets->pdata[i];
        if (!proxies_is_of(socket, vm->name, vm) || !proxies_is_reached(socket->socket))
            continue;
        g_string_append_printf(why, "the vgpu-proxy that is asked at %s has it for this VM",
                               socket->proxy);
        return g_strconcat("proxy:", socket->socket, NULL);
    }
    if (error)
        g_string_append_printf(why, "%s; ", error->message);
    return NULL;
}

/* Chooses a proxy of the VM's own, which no other VM uses. Sets *ret_why to a sentence on it, or on
 * why there is none: NULL is returned then. */
static char *
proxies_choose(vg_daemon_backend *backend, const struct vg_inv_vm *vm, char **ret_why)
{
    g_autoptr(GString) why = g_string_new(NULL);
    char *place = proxies_place_of_group(backend, vm, why);

    if (!place)
        place = proxies_place_of_socket(backend, vm, why);
    if (!place)
        g_string_append_printf(
            why,
            "vgpud knows no vgpu-proxy that programs of '%s' reach by TCP or TLS: no "
            "[proxy %s] in vgpud.conf, and no socket of a proxy of this host "
            "that is for it; they stand still",
            vm->name, vm->name);
    *ret_why = g_string_free(g_steal_pointer(&why), FALSE);
    return place;
}

/* ---- all there is to one VM ---- */

static void
proxies_add_place(struct vg_proxy_show *show, const char *place, char *take_why)
{
    for (guint i = 0; i < show->places->len; i++) {
        const struct vg_proxy_place *other = show->places->pdata[i];
        if (strcmp(other->place, place) == 0) {
            g_free(take_why);
            return;
        }
    }
    struct vg_proxy_place *to = vg_record_new(&vg_proxy_place_record);
    to->place = g_strdup(place);
    to->why = take_why;
    g_ptr_array_add(show->places, to);
}

static bool
proxies_is_name(const char *name, const char *id, const struct vg_inv_vm *vm)
{
    return name && *name &&
           (strcmp(name, id) == 0 || (vm && vg_drift_is_vm(name, vm->name, vm->uuid)));
}

/* What the guest is told of, and where else programs of other machines find a socket of the VM's.
 */
static void
proxies_add_places(struct vg_proxy_show *show)
{
    for (guint i = 0; i < show->guests->len; i++) {
        const struct vg_proxy_guest *guest = show->guests->pdata[i];
        if (strcmp(guest->address, "none") != 0)
            proxies_add_place(show, guest->address,
                              g_strdup_printf("[proxy %s] in vgpud.conf names it", guest->vm));
    }
    for (guint i = 0; i < show->items->len; i++) {
        const struct vg_proxy_shown *shown = show->items->pdata[i];
        if (proxies_is_reached(shown->socket.socket))
            proxies_add_place(show, shown->socket.socket,
                              g_strdup_printf("the vgpu-proxy that is asked at %s has it for "
                                              "this VM",
                                              shown->socket.proxy));
    }
}

static int
proxies_add_shown(struct vg_proxy_show *show, const struct vg_proxy_socket *socket, GError **err)
{
    g_autoptr(vg_proxy_desk) desk = vg_proxy_desk_open(socket->proxy, err);
    struct vg_proxy_shown *shown = desk ? vg_proxy_desk_show(desk, socket->socket, err) : NULL;

    if (!shown)
        return -1;
    g_ptr_array_add(show->items, shown);
    return 0;
}

vg_proxy_show *
backend_show_proxy(void *data, const char *id, GError **err)
{
    const vg_daemon_backend *backend = data;
    g_autoptr(vg_view) view = vg_node_view(backend->parts.node);
    const struct vg_inv_vm *vm = backend_find_here(view, id);
    g_autoptr(GPtrArray) sockets = backend_list_proxies(data, err);
    g_autoptr(GPtrArray) guests = vg_proxy_teller_list(backend->teller);
    g_autoptr(vg_proxy_show) show = vg_record_new(&vg_proxy_show_record);

    show->vm = g_strdup(vm ? vm->name : id);
    show->uuid = g_strdup(vm && vm->uuid ? vm->uuid : "");
    for (guint i = 0; sockets && i < sockets->len; i++)
        if (proxies_is_of(sockets->pdata[i], id, vm) &&
            proxies_add_shown(show, sockets->pdata[i], err) < 0)
            return NULL;
    for (guint i = 0; i < guests->len; i++) {
        const struct vg_proxy_guest *guest = guests->pdata[i];
        if (proxies_is_name(guest->vm, id, vm) || proxies_is_name(guest->uuid, id, vm))
            g_ptr_array_add(show->guests, vg_record_copy(&vg_proxy_guest_record, guest));
    }
    if (!sockets)
        return NULL;
    if (show->items->len == 0 && show->guests->len == 0) {
        vg_error(err, VG_E_NOT_FOUND,
                 "no socket of a vgpu-proxy of this host is that of '%s', and no [proxy %s] in "
                 "vgpud.conf names one of another host",
                 id, id);
        return NULL;
    }
    proxies_add_places(show);
    return g_steal_pointer(&show);
}

/* ---- moves ---- */

struct vg_migration *
backend_prepare_move(vg_daemon_backend *backend, const struct vg_inv_vm *vm,
                     const struct vg_migration_request *request, GError **err)
{
    const bool is_chosen = g_strcmp0(request->gpu_during, VG_MIGRATION_PLACE_CHOSEN) == 0;
    struct vg_migration_request wanted = *request;
    g_autofree char *why = NULL;
    g_autofree char *place = is_chosen ? proxies_choose(backend, vm, &why) : NULL;

    if (is_chosen)
        wanted.gpu_during = place;
    g_autoptr(vg_migration) migration = vg_mover_prepare(backend->parts.mover, vm, &wanted, err);
    if (!migration || backend_check_target(backend, migration, err) < 0)
        return NULL;
    migration->gpu_during_why = g_steal_pointer(&why);
    return g_steal_pointer(&migration);
}

/* ---- having programs go on elsewhere ---- */

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
