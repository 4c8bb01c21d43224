/* SPDX-License-Identifier: Apache-2.0
 *
 * Notes when a guest reboots by itself, as libvirt tells it: its agent then knows nothing of an
 * order, and answers only once the guest has booted.
 */
#ifndef VG_ACTUATORS_VIRT_REBOOTS_H
#define VG_ACTUATORS_VIRT_REBOOTS_H

#include <stdint.h>

#include <libvirt/libvirt.h>

typedef struct vg_virt_reboots vg_virt_reboots;

vg_virt_reboots *vg_virt_reboots_new(const char *uuid);
vg_virt_reboots *vg_virt_reboots_ref(vg_virt_reboots *reboots); /* NULL is fine */
void vg_virt_reboots_unref(vg_virt_reboots *reboots);           /* NULL is fine */

/* Notes those that this connection tells of, until it is closed. */
void vg_virt_reboots_listen(vg_virt_reboots *reboots, virConnectPtr connection);

/* Returns when the guest rebooted last (CLOCK_MONOTONIC), or 0. NULL: 0. Any thread. */
int64_t vg_virt_reboots_last_ns(vg_virt_reboots *reboots);

#endif
