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
mover_find_target(vg_mover *mover, const char *to, enum vg_migration_executor executor,
                  GError **err)
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
    /* nova finds the way to its hosts by itself. */
    bool reached = executor == VG_EXECUTOR_NOVA;
    if (!reached) {
        uri = mover_peer_uri(mover, info->name, err);
        reached = uri != NULL;
    }
    if (!reached || !info->host) {
        if (reached)
            vg_error(err, VG_E_CONFLICT, "peer '%s' has never answered: %s", info->name,
                     info->reason ? info->reason : "it has not been asked yet");
        vg_peer_info_free(info);
        return NULL;
    }
    return info;
}

/* A VM that nova manages is moved by nova, or not at all. */
static int
mover_choose_executor(const struct vg_move_settings *settings, const struct vg_inv_vm *vm,
                      enum vg_migration_executor *ret, GError **err)
{
    if (vm->nova_managed && !settings->nova)
        return vg_error(
            err, VG_E_REFUSED,
            "OpenStack manages '%s' (instance %s), and nova would not know that libvirt "
            "moved it; [nova] in vgpud.conf says how vgpud asks nova to",
            vm->name, vm->nova.name ? vm->nova.name : "without a name");
    *ret = vm->nova_managed ? VG_EXECUTOR_NOVA : VG_EXECUTOR_LIBVIRT;
    return 0;
}

static int
mover_refuse_nova_gpu(const char *vm, const char *kind, const char *what, GError **err)
{
    return vg_error(
        err, VG_E_REFUSED,
        "OpenStack manages '%s', and its GPU (%s %s) comes from its flavor: nova has no "
        "call that takes it off, and vgpud takes nothing off behind nova's back",
        vm, kind, what);
}

/* As the inventory has it: libvirt need not know of which type a device is. */
static int
mover_check_nova_devices(const struct vg_inv_vm *vm, GError **err)
{
    for (guint i = 0; vm->nova_managed && i < vm->devices->len; i++) {
        const struct vg_inv_device *device = vm->devices->pdata[i];
        if (device->is_gpu)
            return mover_refuse_nova_gpu(vm->name, device->kind, device->address, err);
    }
    return 0;
}

int
mover_set_executor(const vg_move_settings *settings, const struct vg_inv_vm *vm,
                   struct vg_migration *migration, GError **err)
{
    if (mover_choose_executor(settings, vm, &migration->executor, err) < 0)
        return -1;
    return mover_check_nova_devices(vm, err);
}

static int
mover_check_gpus(const struct vg_migration *migration, const GPtrArray *gpus, GError **err)
{
    if (gpus->len > 0 && migration->executor == VG_EXECUTOR_NOVA) {
        const struct vg_move_device *first = gpus->pdata[0];
        return mover_refuse_nova_gpu(migration->vm, vg_move_device_kind_names[first->kind],
                                     first->type, err);
    }
    if (gpus->len > VG_MIGRATION_DEVICES_MAX)
        return vg_error(err, VG_E_REFUSED, "the VM has %u GPUs, more than %d", gpus->len,
                        VG_MIGRATION_DEVICES_MAX);
    return 0;
}

int
mover_read_gpus(const vg_move_settings *settings, struct vg_migration *migration, GError **err)
{
    g_autoptr(vg_virt_host) source = vg_virt_host_open(settings->libvirt_uri, err);
    g_autoptr(GPtrArray) gpus =
        source ? vg_virt_gpus(source, migration->uuid, settings->named, settings->n_named, err)
               : NULL;

    if (!gpus || mover_check_gpus(migration, gpus, err) < 0)
        return -1;
    for (guint i = 0; i < gpus->len; i++)
        g_ptr_array_add(migration->devices, vg_record_copy(&vg_move_device_record, gpus->pdata[i]));
    return 0;
}

struct vg_migration *
vg_mover_prepare(vg_mover *mover, const struct vg_inv_vm *vm,
                 const struct vg_migration_request *request, GError **err)
{
    g_autoptr(vg_move_settings) settings = vg_mover_settings(mover);
    struct vg_peer_info *target = NULL;
    g_autoptr(vg_migration) migration = vg_migration_new();

    if (!settings->enabled) {
        vg_error(err, VG_E_REFUSED,
                 "acting is off on this host; [actions] enabled=yes in vgpud.conf allows it");
        return NULL;
    }
    if (mover_set_executor(settings, vm, migration, err) < 0)
        return NULL;
    target = mover_find_target(mover, request->to, migration->executor, err);
    if (!target)
        return NULL;
    migration->id = vg_move_new_id("move");
    migration->vm = g_strdup(vm->name);
    migration->uuid = g_strdup(vm->uuid);
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
