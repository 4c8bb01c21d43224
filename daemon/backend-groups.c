/* SPDX-License-Identifier: Apache-2.0
 *
 * Prevents concurrent moves of VMs in the same anti-affinity group.
 */
#include "config.h"

#include "daemon/backend-private.h"
#include "model/vm-name.h"
#include "policy/drift.h"

/* Finds a VM of another host in the peers' snapshots. */
static const struct vg_snap_vm *
groups_find_elsewhere(const GPtrArray *copies, const char *uuid)
{
    for (guint i = 0; i < copies->len; i++) {
        const struct vg_peer_copy *copy = copies->pdata[i];
        for (guint h = 0; h < copy->snapshot->hosts->len; h++) {
            const GPtrArray *vms =
                ((const struct vg_snap_host *)copy->snapshot->hosts->pdata[h])->vms;
            for (guint k = 0; k < vms->len; k++) {
                const struct vg_snap_vm *vm = vms->pdata[k];
                if (vg_vm_is(uuid, NULL, vm->uuid))
                    return vm;
            }
        }
    }
    return NULL;
}

int
backend_check_groups(void *data, const struct vg_migration *migration, GError **err)
{
    vg_daemon_backend *backend = data;
    g_autoptr(vg_view) view = vg_node_view(backend->parts.node);
    g_autoptr(GPtrArray) moving = vg_mover_moving(backend->parts.mover);
    g_autoptr(GPtrArray) theirs = vg_peers_moving_to(backend->parts.peers, migration->to);
    g_autoptr(GPtrArray) copies = vg_peers_copies(backend->parts.peers);
    const struct vg_snap_vm *mine = vg_view_find_vm(view, migration->uuid);

    for (guint i = 0; mine && i < moving->len + theirs->len; i++) {
        const struct vg_snap_vm *other =
            i < moving->len ? vg_view_find_vm(view, moving->pdata[i])
                            : groups_find_elsewhere(copies, theirs->pdata[i - moving->len]);
        if (other && vg_drift_check_groups(mine, other, err) < 0)
            return -1;
    }
    return 0;
}

int
backend_check_arrivals(void *data, const char *uuid, const char *other, GError **err)
{
    vg_daemon_backend *backend = data;
    g_autoptr(GPtrArray) copies = vg_peers_copies(backend->parts.peers);
    const struct vg_snap_vm *vm = groups_find_elsewhere(copies, uuid);
    const struct vg_snap_vm *beside = groups_find_elsewhere(copies, other);

    return vm && beside ? vg_drift_check_groups(vm, beside, err) : 0;
}
