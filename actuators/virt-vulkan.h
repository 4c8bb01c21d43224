/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VG_ACTUATORS_VIRT_VULKAN_H
#define VG_ACTUATORS_VIRT_VULKAN_H

#include "actuators/virt-move.h"
#include "model/vulkan.h"

/* Puts Vulkan into the persistent definition of a domain, or takes out what was put in, or in a dry
 * run only tells what that would change. A domain that runs has it from its next start on. Fails
 * with VG_E_NOT_FOUND if there is no such domain, or with VG_E_CONFLICT if it has no definition, or
 * one that cannot be changed so; then, and where libvirt does not take the definition, the old one
 * stays. */
vg_vulkan_change *vg_virt_set_vulkan(vg_virt_link *link, const char *uuid,
                                     const struct vg_vulkan_request *request, GError **err);

#endif
