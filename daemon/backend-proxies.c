/* SPDX-License-Identifier: Apache-2.0
 *
 * Manages the OpenCL proxies on this host: which VMs use them, and each VM's share of a GPU.
 */
#include "config.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "daemon/backend-private.h"
#include "host/proxy-control.h"
#include "model/vm-name.h"
#include "mover/proxy-room.h"
#include "policy/drift.h"

/* This limit may exceed that of the collector, as the callers can wait. */
#define PROXIES_ANSWER_NS (2 * VG_NS_PER_S)

/* The maximum number of memory reservations at proxies whose clients are known. */
#define ROOMS_MAX 4096

/* ---- memory reserved for arriving programs ---- */

void
backend_room_free(void *data)
{
    struct backend_room *room = data;

    g_free(room->owner);
    g_free(room);
}

static gboolean
proxies_room_is_over(void *id, void *room, void *now_ns)
{
    (void)id;
    return ((const struct backend_room *)room)->until_ns <= *(const int64_t *)now_ns;
}

/* Checks that no other client owns the reservation with this id. */
static int
proxies_check_room(vg_daemon_backend *backend, const char *id, const char *asked_by, GError **err)
{
    int64_t now_ns = vg_clock_monotonic_ns();

    VG_LOCK_SCOPE(&backend->lock);
    g_hash_table_foreach_remove(backend->rooms, proxies_room_is_over, &now_ns);
    const struct backend_room *room = g_hash_table_lookup(backend->rooms, id);
    if (room && strcmp(room->owner, asked_by) != 0)
        return vg_error(err, VG_E_DENIED, "reservation '%s' does not belong to '%s'", id, asked_by);
    return 0;
}

int
backend_reserve_room(void *data, const struct vg_proxy_room *room, const char *asked_by,
                     GError **err)
{
    vg_daemon_backend *backend = data;
    g_autofree char *proxies = backend_proxy_paths(data);

    if (proxies_check_room(backend, room->id, asked_by, err) < 0 ||
        vg_proxy_room_reserve(proxies, room, err) < 0)
        return -1;
    struct backend_room *kept = g_new0(struct backend_room, 1);
    kept->owner = g_strdup(asked_by);
    kept->until_ns = vg_clock_monotonic_ns() + room->seconds * VG_NS_PER_S;
    VG_LOCK_SCOPE(&backend->lock);
    if (g_hash_table_size(backend->rooms) < ROOMS_MAX)
        g_hash_table_replace(backend->rooms, g_strdup(room->id), kept);
    else
        backend_room_free(kept);
    return 0;
}

int
backend_release_room(void *data, const char *id, const char *asked_by, GError **err)
{
    vg_daemon_backend *backend = data;
    g_autofree char *proxies = backend_proxy_paths(data);

    if (proxies_check_room(backend, id, asked_by, err) < 0 ||
        vg_proxy_room_release(proxies, id, err) < 0)
        return -1;
    VG_LOCK_SCOPE(&backend->lock);
    g_hash_table_remove(backend->rooms, id);
    return 0;
}

GPtrArray *
backend_list_proxy_guests(void *data)
{
    const vg_daemon_backend *backend = data;

    return vg_proxy_notifier_list(backend->notifier);
}

/* Returns whether a name means the VM that was requested as `id`. vm is NULL if libvirt has no such
 * VM. */
static bool
proxies_is_name(const char *name, const char *id, const struct vg_inv_vm *vm)
{
    return vg_vm_is(name, id, NULL) || (vm && vg_vm_is(name, vm->name, vm->uuid));
}

/* Returns whether a socket belongs to this VM, which libvirt may not know. */
static bool
proxies_is_of(const struct vg_proxy_socket *socket, const char *id, const struct vg_inv_vm *vm)
{
    return proxies_is_name(socket->vm, id, vm);
}

static int
proxies_limit(const struct vg_proxy_socket *socket, const struct vg_proxy_limit *limit,
              GError **err)
{
    g_autoptr(vg_proxy_control) control =
        vg_proxy_control_open(socket->proxy, PROXIES_ANSWER_NS, err);

    return control ? vg_proxy_control_set_weight(control, socket->socket, limit->weight, err) : -1;
}

/* Checks that a plan's proposal for a VM still holds. to is the place where its programs go, or
 * NULL. Sets *ret_place, unless it is NULL, to their current place, which the caller frees. */
static int
proxies_check_plan(vg_daemon_backend *backend, const vg_view *view, const char *plan_id,
                   const char *vm, const char *to, int64_t weight, char **ret_place, GError **err)
{
    struct vg_saved_plan *saved = vg_journal_read_plan(backend->parts.journal, plan_id, err);
    g_autoptr(GPtrArray) notes = g_ptr_array_new_with_free_func(g_free);

    if (!saved)
        return -1;
    g_autoptr(vg_plan) plan = vg_plan_from_json(saved->text, strlen(saved->text), err);
    vg_saved_plan_free(saved);
    const struct vg_plan_proxy_action *action =
        plan ? vg_drift_find_proxy_action(plan, vm, to, weight, err) : NULL;
    const char *host = action ? (to ? action->host : action->from_host) : NULL;
    if (!action)
        return -1;
    if (strcmp(host, vg_mover_host(backend->parts.mover)) != 0)
        return vg_error(err, VG_E_CONFLICT,
                        "only the vgpud on host '%s' can do this: make and apply the plan there",
                        host);
    g_autoptr(vg_snapshot) snapshot = backend->ops.measurement->gather(backend, view, notes);
    if (vg_drift_check_proxy(snapshot, plan, action, err) < 0)
        return -1;
    if (ret_place)
        *ret_place = g_strdup(action->from);
    return 0;
}

/* Returns whether a socket is at a place named in a plan. */
static bool
proxies_is_at(const struct vg_proxy_socket *socket, const char *place)
{
    const char *at = g_str_has_prefix(place, "proxy:") ? place + strlen("proxy:") : place;

    return strcmp(socket->address, at) == 0 || strcmp(socket->socket, at) == 0;
}

GPtrArray *
backend_limit_proxy(void *data, const char *id, const struct vg_proxy_limit *limit, GError **err)
{
    vg_daemon_backend *backend = data;
    g_autoptr(vg_view) view = vg_node_view(backend->parts.node);
    const struct vg_inv_vm *vm = backend_find_here(view, id);
    g_autofree char *place = NULL;

    if (limit->plan_id &&
        proxies_check_plan(backend, view, limit->plan_id, id, NULL, limit->weight, &place, err) < 0)
        return NULL;
    g_autoptr(GPtrArray) sockets = backend_list_proxies(data, err);
    for (unsigned i = sockets ? sockets->len : 0; i > 0; i--) {
        struct vg_proxy_socket *socket = sockets->pdata[i - 1];
        if (!proxies_is_of(socket, id, vm) || (place && !proxies_is_at(socket, place))) {
            g_ptr_array_remove_index(sockets, i - 1);
            continue;
        }
        if (limit->dry_run)
            continue;
        if (proxies_limit(socket, limit, err) < 0)
            return NULL;
        socket->weight = limit->weight;
    }
    if (sockets && sockets->len == 0) {
        vg_error(err, VG_E_NOT_FOUND, "no vgpu-proxy on this host has a socket for '%s'", id);
        return NULL;
    }
    return g_steal_pointer(&sockets);
}

/* ---- the proxy during a move ---- */

/* Returns the VM's place from [proxy VM] if its address is also valid on other hosts, and appends
 * the reason. */
static char *
proxies_place_of_group(vg_daemon_backend *backend, const struct vg_inv_vm *vm, GString *why)
{
    g_autoptr(GPtrArray) guests = vg_proxy_notifier_list(backend->notifier);

    for (guint i = 0; i < guests->len; i++) {
        const struct vg_proxy_guest *guest = guests->pdata[i];
        if (!vg_vm_is(guest->vm, vm->name, vm->uuid) ||
            !(g_str_has_prefix(guest->address, "tcp:") || g_str_has_prefix(guest->address, "tls:")))
            continue;
        g_string_append_printf(why, "[proxy %s] in vgpud.conf names it", guest->vm);
        if (!guest->told)
            g_string_append_printf(why, ", but its guest does not know the token yet: %s",
                                   guest->reason && *guest->reason ? guest->reason
                                                                   : "it was not notified");
        return g_strconcat("proxy:", guest->address, NULL);
    }
    return NULL;
}

static char *
proxies_place_of_socket(vg_daemon_backend *backend, const struct vg_inv_vm *vm, GString *why)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(GPtrArray) sockets = backend_list_proxies(backend, &error);

    for (guint i = 0; sockets && i < sockets->len; i++) {
        const struct vg_proxy_socket *socket = sockets->pdata[i];
        if (!proxies_is_of(socket, vm->name, vm) || !vg_proxy_address_is_far(socket->address))
            continue;
        g_string_append_printf(why, "the vgpu-proxy with control socket %s provides it for this VM",
                               socket->proxy);
        return g_strconcat("proxy:", socket->address, NULL);
    }
    if (error)
        g_string_append_printf(why, "%s; ", error->message);
    return NULL;
}

/* Chooses a proxy for the VM alone. Returns NULL if there is none. *ret_why is a sentence that
 * explains the choice. */
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
            "vgpud knows no vgpu-proxy that '%s' can reach through TCP or TLS: vgpud.conf has no "
            "[proxy %s], and no proxy on this host has a socket for it; the programs are paused",
            vm->name, vm->name);
    *ret_why = g_string_free(g_steal_pointer(&why), FALSE);
    return place;
}

/* ---- all information on a VM ---- */

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

/* Adds the places that the guest knows, and the VM's sockets that other machines can use. */
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
        if (vg_proxy_address_is_far(shown->socket.address))
            proxies_add_place(
                show, shown->socket.socket,
                g_strdup_printf("the vgpu-proxy with control socket %s provides it for this VM",
                                shown->socket.proxy));
    }
}

static int
proxies_add_shown(struct vg_proxy_show *show, const struct vg_proxy_socket *socket, GError **err)
{
    g_autoptr(vg_proxy_control) control =
        vg_proxy_control_open(socket->proxy, PROXIES_ANSWER_NS, err);
    struct vg_proxy_shown *shown =
        control ? vg_proxy_control_show(control, socket->socket, err) : NULL;

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
    g_autoptr(GPtrArray) guests = vg_proxy_notifier_list(backend->notifier);
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
                 "no vgpu-proxy on this host has a socket for '%s', and no [proxy %s] in "
                 "vgpud.conf names a proxy on another host",
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

    if (request->act && backend_act_check(backend, vm, err) < 0)
        return NULL;
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

/* ---- moving programs to another proxy ---- */

/* Updates the mean time for which programs were paused. The newest value has the largest weight. */
static void
proxies_note_stop(vg_daemon_backend *backend, const struct vg_proxy_move *move)
{
    int64_t longest_ns = 0;

    for (guint i = 0; i < move->guest.programs->len; i++) {
        const struct vg_guest_program *program = move->guest.programs->pdata[i];
        longest_ns = MAX(longest_ns, program->stop_ns);
    }
    if (!move->dry_run && longest_ns > 0)
        vg_node_note_proxy_stop(backend->parts.node, longest_ns);
}

static struct vg_proxy_move *
proxies_move(vg_daemon_backend *backend, const struct vg_inv_vm *vm,
             const struct vg_proxy_move_request *request, GError **err)
{
    struct vg_proxy_move *move = vg_record_new(&vg_proxy_move_record);
    int status = 0;

    move->vm = g_strdup(vm->name);
    move->uuid = g_strdup(vm->uuid);
    move->to = g_strdup(request->to);
    move->dry_run = request->dry_run;
    if (!vg_proxy_move_is_place(request->to))
        status = backend_find_place(backend, vm, request->to, move, err);
    if (status == 0)
        status = vg_mover_switch(backend->parts.mover, move, err);
    if (status == 0) {
        proxies_note_stop(backend, move);
        return move;
    }
    vg_proxy_move_free(move);
    return NULL;
}

struct vg_proxy_move *
backend_move_proxy(void *data, const char *id, const struct vg_proxy_move_request *request,
                   GError **err)
{
    vg_daemon_backend *backend = data;
    g_autoptr(vg_view) view = vg_node_view(backend->parts.node);
    const struct vg_inv_vm *vm = backend_find_here(view, id);

    if (request->plan_id &&
        proxies_check_plan(backend, view, request->plan_id, id, request->to, 0, NULL, err) < 0)
        return NULL;
    if (vm)
        return proxies_move(backend, vm, request, err);
    vg_error(err, VG_E_NOT_FOUND, "this host's libvirt has no VM '%s'", id);
    return NULL;
}
