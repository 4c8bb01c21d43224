/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks for networks, pools, secrets and filters that a VM needs at the libvirt of another host.
 */
#ifndef VG_ACTUATORS_VIRT_OBJECTS_H
#define VG_ACTUATORS_VIRT_OBJECTS_H

#include <glib.h>

#include "actuators/virt-host.h"

/* Appends a sentence (char *) to problems for each object (struct vg_move_object) that the host
 * lacks, or that is not active there. Objects whose driver the host has not are left out. The host
 * is connected; only its thread calls. */
void virt_objects_check(vg_virt_host *host, const GPtrArray *objects, GPtrArray *problems);

#endif
