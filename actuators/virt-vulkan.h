/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VG_ACTUATORS_VIRT_VULKAN_H
#define VG_ACTUATORS_VIRT_VULKAN_H

#include "actuators/virt-move.h"
#include "model/vulkan.h"

/* Adds Vulkan to the persistent definition of a domain, or removes what was added; in a dry run
 * only returns the change. For a running domain, it takes effect at the next start. Fails with
 * VG_E_NOT_FOUND if the domain does not exist, or with VG_E_CONFLICT if it has no definition or
 * one that cannot be changed in this way. In these cases, or if libvirt rejects the new
 * definition, the old one remains. */
vg_vulkan_change *vg_virt_set_vulkan(vg_virt_link *link, const char *uuid,
                                     const struct vg_vulkan_request *request, GError **err);

#endif
