/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks that another host's libvirt has the networks, pools, secrets and filters that a VM
 * needs.
 */
#ifndef VG_ACTUATORS_VIRT_OBJECTS_H
#define VG_ACTUATORS_VIRT_OBJECTS_H

#include <glib.h>

#include "actuators/virt-host.h"

/* Appends a sentence (char *) to problems for each object (struct vg_move_object) that is missing
 * or inactive on the host. Skips objects whose driver the host does not have. The host must be
 * connected; only its thread may call this. */
void virt_objects_check(vg_virt_host *host, const GPtrArray *objects, GPtrArray *problems);

#endif
