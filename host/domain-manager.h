/* SPDX-License-Identifier: Apache-2.0
 *
 * Recognises VMs of managers that start, move and stop VMs on their own. Pure; any thread.
 */
#ifndef VG_HOST_DOMAIN_MANAGER_H
#define VG_HOST_DOMAIN_MANAGER_H

#include <libxml/tree.h>

#include "model/inventory.h"

/* Sets manager and manager_move of a VM, whose name and UUID must be set, from the marks that
 * managers other than nova leave in its domain. If there is no mark, they are unchanged. */
void domain_manager_read(const xmlNode *domain, struct vg_inv_vm *vm);

#endif
