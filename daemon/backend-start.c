/* SPDX-License-Identifier: Apache-2.0
 *
 * Starts and ends the backend's own tasks.
 */
#include "config.h"

#include "daemon/backend-act.h"
#include "daemon/backend-private.h"

static void
start_free_vm(void *data)
{
    struct vg_vm_here *vm = data;

    g_free(vm->name);
    g_free(vm->uuid);
    g_free(vm);
}

/* Lists the VMs of this host for the notifier. */
static GPtrArray *
start_list_vms(void *data)
{
    const vg_daemon_backend *backend = data;
    g_autoptr(vg_view) view = vg_node_view(backend->parts.node);

    if (!view->inventory->libvirt_uri)
        return NULL;
    GPtrArray *list = g_ptr_array_new_with_free_func(start_free_vm);
    for (guint i = 0; i < view->inventory->vms->len; i++) {
        const struct vg_inv_vm *vm = view->inventory->vms->pdata[i];
        if (!vm->uuid)
            continue;
        struct vg_vm_here *here = g_new0(struct vg_vm_here, 1);
        *here = (struct vg_vm_here){g_strdup(vm->name), g_strdup(vm->uuid), vm->id};
        g_ptr_array_add(list, here);
    }
    return list;
}

int
vg_daemon_backend_start(vg_daemon_backend *backend, GError **err)
{
    if (backend_start_drainer(backend, err) < 0 || backend_start_judge(backend, err) < 0)
        return -1;
    backend->notifier = vg_proxy_notifier_new(
        &(struct vg_proxy_notifier_parts){
            .mover = backend->parts.mover,
            .directory = backend->access->directory,
            .list_vms = start_list_vms,
            .data = backend,
        },
        backend->access->proxies, err);
    return backend->notifier &&
                   vg_mover_run_queue(backend->parts.mover, &backend_turn, backend, err) == 0
               ? backend_start_leader(backend, err)
               : -1;
}

void
vg_daemon_backend_stop(vg_daemon_backend *backend)
{
    if (!backend)
        return;
    backend_act_interrupt(backend->act);
    vg_leader_stop(backend->leader);
    vg_judge_stop(backend->judge);
    vg_drainer_stop(backend->drainer);
    vg_proxy_notifier_stop(backend->notifier);
}
