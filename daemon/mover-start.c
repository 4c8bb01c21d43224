/* SPDX-License-Identifier: Apache-2.0
 *
 * What a request for a move means, before anything is done.
 */
#include "config.h"

#include <string.h>

#include "base/error.h"
#include "daemon/mover-private.h"

/* The peer that is meant: its name, or what it calls its host. */
static struct vg_peer_info *
mover_find_target(vg_mover *mover, const char *to, GError **err)
{
    g_autofree char *uri = NULL;

    if (strcmp(to, mover->parts.host) == 0) {
        vg_error(err, VG_E_CONFLICT, "the VM is on '%s' already", to);
        return NULL;
    }
    struct vg_peer_info *info = vg_peers_find(mover->parts.peers, to);
    if (!info) {
        vg_error(err, VG_E_NOT_FOUND,
                 "this vgpud knows no host '%s'; a group [peer NAME] in its configuration tells of "
                 "it, and `vgpuctl peer list` shows those that are known",
                 to);
        return NULL;
    }
    uri = mover_peer_uri(mover, info->name, err);
    if (!uri || !info->host) {
        if (uri)
            vg_error(err, VG_E_CONFLICT, "peer '%s' has never answered: %s", info->name,
                     info->reason ? info->reason : "it has not been asked yet");
        vg_peer_info_free(info);
        return NULL;
    }
    return info;
}

int
mover_read_gpus(const vg_move_settings *settings, struct vg_migration *migration, GError **err)
{
    g_autoptr(vg_virt_host) source = vg_virt_host_open(settings->libvirt_uri, err);
    g_autoptr(GPtrArray) gpus =
        source ? vg_virt_gpus(source, migration->uuid, settings->named, settings->n_named, err)
               : NULL;

    if (!gpus)
        return -1;
    for (guint i = 0; i < gpus->len; i++)
        g_ptr_array_add(migration->devices, vg_record_copy(&vg_move_device_record, gpus->pdata[i]));
    return 0;
}

struct vg_migration *
vg_mover_prepare(vg_mover *mover, const char *vm, const char *uuid,
                 const struct vg_migration_request *request, GError **err)
{
    g_autoptr(vg_move_settings) settings = vg_mover_settings(mover);
    struct vg_peer_info *target = NULL;

    if (!settings->enabled) {
        vg_error(err, VG_E_REFUSED,
                 "acting is off on this host; [actions] enabled=yes in vgpud.conf allows it");
        return NULL;
    }
    target = mover_find_target(mover, request->to, err);
    if (!target)
        return NULL;
    g_autoptr(vg_migration) migration = vg_migration_new();
    migration->id = vg_move_new_id("move");
    migration->vm = g_strdup(vm);
    migration->uuid = g_strdup(uuid);
    migration->from = g_strdup(mover->parts.host);
    migration->to = g_strdup(target->host);
    migration->peer = g_strdup(target->name);
    migration->plan_id = g_strdup(request->plan_id);
    migration->undo_of = g_strdup(request->undo_of);
    migration->asked_by = g_strdup(request->asked_by);
    migration->no_agent = request->no_agent;
    migration->vm_on = VG_PLACE_SOURCE;
    migration->gpu = VG_GPU_ATTACHED;
    vg_peer_info_free(target);
    if (mover_read_gpus(settings, migration, err) < 0)
        return NULL;
    return g_steal_pointer(&migration);
}
