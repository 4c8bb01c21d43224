/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "daemon/backend-private.h"
#include "model/vm-name.h"

const struct vg_inv_vm *
backend_find_here(const vg_view *view, const char *id)
{
    for (guint i = 0; i < view->inventory->vms->len; i++) {
        const struct vg_inv_vm *vm = view->inventory->vms->pdata[i];
        if (vm->uuid && vg_vm_is(id, vm->name, vm->uuid))
            return vm;
    }
    return NULL;
}
