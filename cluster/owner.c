/* SPDX-License-Identifier: Apache-2.0
 *
 * Determines which peer has a VM. Only peers with verified hosts count, and if two of them have the
 * VM, a move must explain this.
 */
#include "config.h"

#include "base/error.h"
#include "cluster/peers.h"
#include "model/arrival.h"
#include "model/vm-name.h"

static const struct vg_snap_vm *
owner_find_vm(const vg_snapshot *snapshot, const char *id)
{
    for (guint i = 0; i < snapshot->hosts->len; i++) {
        const struct vg_snap_host *host = snapshot->hosts->pdata[i];
        for (guint k = 0; k < host->vms->len; k++) {
            const struct vg_snap_vm *vm = host->vms->pdata[k];
            if (vg_vm_is(id, vm->name, vm->uuid))
                return vm;
        }
    }
    return NULL;
}

static bool
owner_is_enough(const vg_snapshot *snapshot, const void *id)
{
    return owner_find_vm(snapshot, id) != NULL;
}

/* Returns whether a peer is moving the VM to another peer's host. */
static bool
owner_moves(const struct vg_peer_view *from, const struct vg_peer_view *to, const char *uuid)
{
    for (guint i = 0; uuid && from->approvals && i < from->approvals->len; i++) {
        const struct vg_approval *one = from->approvals->pdata[i];
        if (one->moving && vg_vm_is(uuid, NULL, one->uuid) &&
            g_strcmp0(one->to, to->info->host) == 0)
            return true;
    }
    return false;
}

/* Chooses between two peers that have a VM: the one that is moving it to the other. Returns NULL if
 * neither is. */
static const struct vg_peer_view *
owner_choose(const struct vg_peer_view *one, const struct vg_peer_view *two, const char *id)
{
    const char *uuid = owner_find_vm(one->snapshot, id)->uuid;

    if (!vg_vm_is(uuid, NULL, owner_find_vm(two->snapshot, id)->uuid))
        return NULL;
    return owner_moves(one, two, uuid) ? one : owner_moves(two, one, uuid) ? two : NULL;
}

/* Finds the peer that has a VM among the peers that have answered. */
static const struct vg_peer_view *
owner_pick(const GPtrArray *views, const char *id, GError **err)
{
    const struct vg_peer_view *found = NULL, *doubtful = NULL;

    for (guint i = 0; i < views->len; i++) {
        const struct vg_peer_view *view = views->pdata[i], *other = found;
        if (!view->snapshot || !owner_find_vm(view->snapshot, id))
            continue;
        if (view->info->host_reason) {
            doubtful = view;
            continue;
        }
        found = other ? owner_choose(other, view, id) : view;
        if (!found) {
            vg_error(err, VG_E_CONFLICT,
                     "hosts '%s' and '%s' both have a VM '%s', and no move explains that",
                     other->info->host, view->info->host, id);
            return NULL;
        }
    }
    if (!found && (!doubtful || vg_peers_check_host(doubtful->info, err) == 0))
        vg_error(err, VG_E_NOT_FOUND, "neither this host nor any of its peers has a VM '%s'", id);
    return found;
}

/* Returns the host in a peer's last snapshot if it has the VM, or NULL. The name is borrowed from
 * the copy. */
static const char *
owner_copy_host(const struct vg_peer_copy *copy, const char *id)
{
    const vg_snapshot *snapshot = copy->snapshot;

    if (snapshot->hosts->len == 0 || !owner_find_vm(snapshot, id))
        return NULL;
    return ((const struct vg_snap_host *)snapshot->hosts->pdata[0])->name;
}

/* Returns whether another peer's last snapshot contains the VM. */
static bool
owner_has_rival(vg_peers *peers, const struct vg_peer_view *owner, const char *id)
{
    g_autoptr(GPtrArray) copies = vg_peers_copies(peers);

    for (guint i = 0; i < copies->len; i++) {
        const char *host = owner_copy_host(copies->pdata[i], id);
        if (host && g_strcmp0(host, owner->info->host) != 0)
            return true;
    }
    return false;
}

struct vg_peer_info *
vg_peers_find_owner(vg_peers *peers, const char *id, GError **err)
{
    g_autoptr(GPtrArray) views = vg_peers_gather(peers, owner_is_enough, id);
    g_autoptr(GError) error = NULL;
    const struct vg_peer_view *found = owner_pick(views, id, &error);

    /* Not all other peers have answered. */
    if (found ? owner_has_rival(peers, found, id)
              : !g_error_matches(error, VG_ERROR, VG_E_NOT_FOUND)) {
        g_ptr_array_unref(views);
        views = vg_peers_gather(peers, NULL, NULL);
        g_clear_error(&error);
        found = owner_pick(views, id, &error);
    }
    if (found)
        return vg_record_copy(&vg_peer_info_record, found->info);
    g_propagate_error(err, g_steal_pointer(&error));
    return NULL;
}

char *
vg_peers_likely_owner(vg_peers *peers, const char *id)
{
    g_autoptr(GPtrArray) copies = vg_peers_copies(peers);

    for (guint i = 0; i < copies->len; i++) {
        const char *host = owner_copy_host(copies->pdata[i], id);
        if (!host)
            continue;
        struct vg_peer_info *info = vg_peers_find(peers, host);
        char *name = info ? g_strdup(info->name) : NULL;
        vg_peer_info_free(info);
        return name;
    }
    return NULL;
}
