/* SPDX-License-Identifier: Apache-2.0
 *
 * Answers API requests to enable Vulkan in a VM's definition.
 */
#include "config.h"

#include "actuators/virt-vulkan.h"
#include "base/error.h"
#include "daemon/backend-private.h"

/* Checks that vgpud may change the VM's definition. */
static int
vulkan_check(const vg_daemon_backend *backend, const struct vg_inv_vm *vm,
             const vg_move_settings *settings, GError **err)
{
    g_autoptr(GPtrArray) moving = vg_mover_moving(backend->parts.mover);

    if (!settings->enabled)
        return vg_error(err, VG_E_REFUSED,
                        "actions are disabled on this host; set [actions] enabled=yes in "
                        "vgpud.conf to enable them");
    if (vm->nova_managed)
        return vg_error(err, VG_E_REFUSED,
                        "OpenStack manages '%s' (instance %s), and nova would overwrite its "
                        "definition",
                        vm->name, vm->nova.name ? vm->nova.name : "without a name");
    if (vm->manager)
        return vg_error(err, VG_E_REFUSED, "%s manages '%s' and would overwrite its definition",
                        vm->manager, vm->name);
    if (g_ptr_array_find_with_equal_func(moving, vm->uuid, g_str_equal, NULL))
        return vg_error(err, VG_E_CONFLICT, "'%s' is being moved", vm->name);
    return 0;
}

vg_vulkan_change *
backend_set_vulkan(void *data, const char *id, const struct vg_vulkan_request *request,
                   GError **err)
{
    vg_daemon_backend *backend = data;
    g_autoptr(vg_view) view = vg_node_view(backend->parts.node);
    const struct vg_inv_vm *vm = backend_find_here(view, id);
    g_autoptr(vg_move_settings) settings = vg_mover_settings(backend->parts.mover);

    if (!vm) {
        vg_error(err, VG_E_NOT_FOUND, "this host's libvirt has no VM '%s'", id);
        return NULL;
    }
    if (vulkan_check(backend, vm, settings, err) < 0)
        return NULL;
    g_autoptr(vg_virt_link) link = vg_virt_link_open(settings->libvirt_uri, err);
    return link ? vg_virt_set_vulkan(link, vm->uuid, request, err) : NULL;
}
