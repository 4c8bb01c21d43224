/* SPDX-License-Identifier: Apache-2.0
 *
 * Reserves GPU memory at the vgpu-proxy where a VM's programs are to continue, until they arrive.
 * Only the proxy knows the reservations of every vgpud. Without a reservation, or if no vgpud knows
 * the proxy, the programs still switch to it, but may find too little memory.
 */
#include "config.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "cluster/peer-moves.h"
#include "model/vm-name.h"
#include "mover/private.h"
#include "mover/proxy-room.h"

#define VG_LOG_TAG "mover"

/* The additional time after the guest's deadline. */
#define SHARE_SLACK_S 60

/* Returns the proxy's address if other guests can also use it, or NULL for a path, which is the
 * guest's own. */
static const char *
share_address(const char *place)
{
    static const char prefix[] = "proxy:";
    const char *address = g_str_has_prefix(place, prefix) ? place + strlen(prefix) : "";

    return vg_proxy_address_is_far(address) || g_str_has_prefix(address, "vsock:") ? address : NULL;
}

/* ---- finding the proxy ---- */

/* A search for a VM's socket at an address. It also sums up the VM's GPU memory at other
 * proxies. */
struct share_seen {
    const char *vm, *uuid, *address;
    int64_t used_bytes;
    bool is_there;
};

static void
share_see(struct share_seen *seen, const char *vm, const char *address, int64_t used_bytes)
{
    if (!vg_vm_is(vm, seen->vm, seen->uuid))
        return;
    if (g_strcmp0(address, seen->address) == 0)
        seen->is_there = true;
    else
        seen->used_bytes += used_bytes;
}

static void
share_see_host(struct share_seen *seen, const struct vg_snap_host *host)
{
    for (guint p = 0; p < host->proxies->len; p++) {
        const struct vg_snap_proxy *proxy = host->proxies->pdata[p];
        for (guint i = 0; i < proxy->sockets->len; i++) {
            const struct vg_snap_proxy_socket *socket = proxy->sockets->pdata[i];
            share_see(seen, socket->vm, socket->address, socket->used_bytes);
        }
    }
}

/* Searches the proxies that other hosts report. Returns the names (char *) of all peers with the
 * socket, since networks of hosts may use the same addresses. The caller frees them. */
static GPtrArray *
share_see_peers(vg_mover *mover, struct share_seen *seen)
{
    g_autoptr(GPtrArray) copies = vg_peers_copies(mover->parts.peers);
    const bool was_there = seen->is_there;
    GPtrArray *names = g_ptr_array_new_with_free_func(g_free);

    for (guint i = 0; i < copies->len; i++) {
        const struct vg_peer_copy *copy = copies->pdata[i];
        for (guint h = 0; h < copy->snapshot->hosts->len; h++) {
            const struct vg_snap_host *host = copy->snapshot->hosts->pdata[h];
            seen->is_there = false;
            share_see_host(seen, host);
            struct vg_peer_info *info = seen->is_there && vg_proxy_address_is_far(seen->address)
                                            ? vg_peers_find(mover->parts.peers, host->name)
                                            : NULL;
            if (info)
                g_ptr_array_add(names, g_strdup(info->name));
            vg_peer_info_free(info);
        }
    }
    seen->is_there = was_there;
    return names;
}

/* ---- reserving memory ---- */

static int
share_reserve(vg_mover *mover, const char *proxies, const char *peer,
              const struct vg_proxy_room *room, GError **err)
{
    return peer ? vg_peer_reserve_room(mover->parts.peers, peer, room, MOVER_PEER_NS, err)
                : vg_proxy_room_reserve(proxies, room, err);
}

/* Warns once for each place where memory cannot be reserved. */
static void
share_warn(vg_mover *mover, const char *place, const char *why)
{
    VG_LOCK_SCOPE(&mover->lock);
    if (g_hash_table_add(mover->unkept, g_strdup(place)))
        vg_log_warn("cannot reserve GPU memory at %s for programs that continue there, so there "
                    "may be too little: %s",
                    place, why);
}

/* Returns why it is unknown which proxy has the address, or NULL. error is the reason if this
 * host's proxies, any of which may have it, are unknown. */
static char *
share_doubt(const struct share_seen *seen, const GPtrArray *peers, const GError *error)
{
    if (seen->is_there)
        return NULL;
    if (error)
        return g_strdup(error->message);
    if (peers->len == 0)
        return g_strdup("no vgpud reports the proxy");
    return peers->len == 1
               ? NULL
               : g_strdup_printf("peers '%s' and '%s' both have a proxy there",
                                 (const char *)peers->pdata[0], (const char *)peers->pdata[1]);
}

int
mover_keep_share(vg_mover *mover, const vg_move_settings *settings, const struct mover_goal *goal,
                 struct mover_share *ret, GError **err)
{
    const char *address = goal->place ? share_address(goal->place) : NULL;
    struct share_seen seen = {.vm = goal->vm, .uuid = goal->uuid, .address = address};
    g_autoptr(GError) error = NULL;

    *ret = (struct mover_share){.id = NULL};
    if (!address)
        return 0;
    g_autoptr(GPtrArray) here = vg_proxy_room_list(settings->proxies, &error);
    for (guint i = 0; here && i < here->len; i++) {
        const struct vg_proxy_socket *socket = here->pdata[i];
        share_see(&seen, socket->vm, socket->address, socket->used_bytes);
    }
    g_autoptr(GPtrArray) peers = share_see_peers(mover, &seen);
    struct vg_proxy_room room = {.socket = (char *)address,
                                 .memory_bytes = goal->bytes >= 0 ? goal->bytes : seen.used_bytes};
    const int64_t allowed_ns =
        vg_guest_allowed_ns(settings->guest_deadline_ns, room.memory_bytes, true);
    room.seconds = allowed_ns / VG_NS_PER_S + SHARE_SLACK_S;
    ret->bytes = room.memory_bytes;
    if (room.memory_bytes == 0) {
        if (error)
            share_warn(mover, goal->place, error->message);
        return 0;
    }
    g_autofree char *doubt = share_doubt(&seen, peers, error);
    if (doubt) {
        share_warn(mover, goal->place, doubt);
        return 0;
    }
    g_clear_error(&error);
    g_autofree char *id = vg_move_new_id("share");
    room.id = id;
    ret->peer = seen.is_there ? NULL : g_strdup(peers->pdata[0]);
    if (share_reserve(mover, settings->proxies, ret->peer, &room, &error) == 0) {
        ret->id = g_steal_pointer(&id);
        return 0;
    }
    if (g_error_matches(error, VG_ERROR, VG_E_CONFLICT))
        return vg_error(err, VG_E_CONFLICT, "%s has too little GPU memory for programs in '%s': %s",
                        goal->place, goal->vm, error->message);
    share_warn(mover, goal->place, error->message);
    return 0;
}

void
mover_leave_share(vg_mover *mover, const vg_move_settings *settings, struct mover_share *share)
{
    g_autoptr(GError) error = NULL;
    const int status = !share->id    ? 0
                       : share->peer ? vg_peer_release_room(mover->parts.peers, share->peer,
                                                            share->id, MOVER_PEER_NS, &error)
                                     : vg_proxy_room_release(settings->proxies, share->id, &error);

    /* All programs have arrived, or the proxy was restarted. Otherwise, the reservation expires. */
    if (status < 0 && !g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND))
        vg_log_warn("GPU memory stays reserved for a while id=%s: %s", share->id, error->message);
    g_clear_pointer(&share->id, g_free);
    g_clear_pointer(&share->peer, g_free);
}
