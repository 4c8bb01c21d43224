/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "policy/drift.h"

#include <string.h>

#include "base/error.h"
#include "model/vm-name.h"

const struct vg_plan_action *
vg_drift_find_action(const vg_plan *plan, const char *vm, const char *to, const char *hash,
                     GError **err)
{
    if (hash && g_strcmp0(hash, plan->input_hash) != 0) {
        vg_error(err, VG_E_CONFLICT, "the input_hash of plan '%s' is %s, not %s", plan->id,
                 plan->input_hash, hash);
        return NULL;
    }
    for (guint i = 0; i < plan->actions->len; i++) {
        const struct vg_plan_action *action = plan->actions->pdata[i];
        if (vg_vm_is(vm, action->vm, action->uuid) && strcmp(action->to, to) == 0)
            return action;
    }
    vg_error(err, VG_E_CONFLICT, "plan '%s' does not move '%s' to '%s'", plan->id, vm, to);
    return NULL;
}

static const struct vg_snap_vm *
drift_find_vm(const struct vg_snap_host *host, const struct vg_plan_action *action)
{
    for (guint i = 0; host && i < host->vms->len; i++) {
        const struct vg_snap_vm *vm = host->vms->pdata[i];
        if (action->uuid ? vg_vm_is(action->uuid, NULL, vm->uuid)
                         : vg_vm_is(action->vm, vm->name, NULL))
            return vm;
    }
    return NULL;
}

int
vg_drift_check(const vg_snapshot *snapshot, const vg_plan *plan,
               const struct vg_plan_action *action, GError **err)
{
    const struct vg_snap_host *from = vg_snapshot_find_host(snapshot, action->from);
    const struct vg_snap_host *to = vg_snapshot_find_host(snapshot, action->to);
    const struct vg_snap_vm *vm = drift_find_vm(from, action);
    static const char again[] = "; make a new plan";

    if (!from || !to)
        return vg_error(err, VG_E_CONFLICT, "host '%s' of plan '%s' does not answer%s",
                        from ? action->to : action->from, plan->id, again);
    if (!vm)
        return vg_error(err, VG_E_CONFLICT,
                        "VM '%s' is no longer on host '%s', where plan '%s' expects it%s",
                        action->vm, action->from, plan->id, again);
    g_autofree char *vm_now = vg_snap_vm_facts_hash(from, vm);
    g_autofree char *from_now = vg_snap_host_facts_hash(from);
    g_autofree char *to_now = vg_snap_host_facts_hash(to);
    if (g_strcmp0(vm_now, action->facts.vm) != 0)
        return vg_error(
            err, VG_E_CONFLICT,
            "VM '%s' has changed since plan '%s' was made (its size, devices or constraints)%s",
            action->vm, plan->id, again);
    if (g_strcmp0(from_now, action->facts.from) != 0 || g_strcmp0(to_now, action->facts.to) != 0)
        return vg_error(err, VG_E_CONFLICT,
                        "host '%s' has changed since plan '%s' was made (its size, devices or "
                        "maintenance)%s",
                        g_strcmp0(from_now, action->facts.from) != 0 ? action->from : action->to,
                        plan->id, again);
    return 0;
}

int
vg_drift_check_groups(const struct vg_snap_vm *vm, const struct vg_snap_vm *other, GError **err)
{
    for (guint i = 0; other != vm && i < vm->anti_affinity->len; i++) {
        const char *group = vm->anti_affinity->pdata[i];
        if (g_ptr_array_find_with_equal_func(other->anti_affinity, group, g_str_equal, NULL))
            return vg_error(
                err, VG_E_CONFLICT,
                "'%s' in the same anti-affinity group '%s' is being moved; members of a group "
                "move one at a time",
                other->name, group);
    }
    return 0;
}

/* ---- proxies ---- */

const struct vg_plan_proxy_action *
vg_drift_find_proxy_action(const vg_plan *plan, const char *vm, const char *to, int64_t weight,
                           GError **err)
{
    for (guint i = 0; i < plan->proxies->len; i++) {
        const struct vg_plan_proxy_action *action = plan->proxies->pdata[i];
        if (vg_vm_is(vm, action->vm, action->uuid) && g_strcmp0(action->to, to) == 0 &&
            (to || action->weight == weight))
            return action;
    }
    vg_error(err, VG_E_CONFLICT, "plan '%s' does not contain this change for programs in '%s'",
             plan->id, vm);
    return NULL;
}

/* Finds the socket that a plan's place of a host refers to, and its proxy. */
static const struct vg_snap_proxy_socket *
drift_find_socket(const vg_snapshot *snapshot, const char *host_name, const char *place,
                  const struct vg_snap_proxy **ret_proxy)
{
    const struct vg_snap_host *host = vg_snapshot_find_host(snapshot, host_name);
    const char *at = g_str_has_prefix(place, "proxy:") ? place + strlen("proxy:") : place;

    for (guint p = 0; host && p < host->proxies->len; p++) {
        const struct vg_snap_proxy *proxy = host->proxies->pdata[p];
        for (guint i = 0; i < proxy->sockets->len; i++) {
            const struct vg_snap_proxy_socket *socket = proxy->sockets->pdata[i];
            *ret_proxy = proxy;
            if (g_strcmp0(socket->address, at) == 0 || strcmp(socket->socket, at) == 0)
                return socket;
        }
    }
    return NULL;
}

int
vg_drift_check_proxy(const vg_snapshot *snapshot, const vg_plan *plan,
                     const struct vg_plan_proxy_action *action, GError **err)
{
    const struct vg_snap_proxy *from_proxy = NULL, *to_proxy = NULL;
    const struct vg_snap_proxy_socket *from =
        drift_find_socket(snapshot, action->from_host, action->from, &from_proxy);
    const struct vg_snap_proxy_socket *to =
        action->to ? drift_find_socket(snapshot, action->to_host, action->to, &to_proxy) : NULL;
    const char *uuid = action->uuid ? action->uuid : action->vm;
    static const char again[] = "; make a new plan";

    if (!from || !from->vm || from->clients == 0 || from_proxy->problem ||
        g_strcmp0(from_proxy->gpu, action->from_gpu) != 0 || !vg_vm_is(from->vm, action->vm, uuid))
        return vg_error(err, VG_E_CONFLICT,
                        "no program in '%s' is known to use %s of host '%s', but plan '%s' "
                        "assumes this%s",
                        action->vm, action->from, action->from_host, plan->id, again);
    if (!action->to && from->weight != action->weight_before)
        return vg_error(err, VG_E_CONFLICT, "'%s' now has weight %d, not %d as plan '%s' assumes%s",
                        action->vm, (int)from->weight, (int)action->weight_before, plan->id, again);
    if (action->to &&
        (!to || !to->vm || to_proxy->problem || g_strcmp0(to_proxy->gpu, action->to_gpu) != 0 ||
         !vg_vm_is(to->vm, action->vm, uuid)))
        return vg_error(err, VG_E_CONFLICT,
                        "the proxy at %s on host '%s' has changed since plan '%s' was made%s",
                        action->to, action->to_host, plan->id, again);
    return 0;
}
