/* SPDX-License-Identifier: Apache-2.0
 *
 * Records reboots that a guest starts, as reported by libvirt: after a reboot, the agent knows
 * nothing of earlier orders, and answers only after the guest has booted.
 */
#ifndef VG_ACTUATORS_VIRT_REBOOTS_H
#define VG_ACTUATORS_VIRT_REBOOTS_H

#include <stdint.h>

#include <libvirt/libvirt.h>

typedef struct vg_virt_reboots vg_virt_reboots;

vg_virt_reboots *vg_virt_reboots_new(const char *uuid);
vg_virt_reboots *vg_virt_reboots_ref(vg_virt_reboots *reboots); /* NULL is fine */
void vg_virt_reboots_unref(vg_virt_reboots *reboots);           /* NULL is fine */

/* Records the reboots that this connection reports, until vg_virt_reboots_stop(). libvirt keeps a
 * connection open as long as it has such a callback. Returns the callback's ID, or -1 if libvirt
 * cannot report reboots. */
int vg_virt_reboots_listen(vg_virt_reboots *reboots, virConnectPtr connection);

/* Removes the callback, before the connection is closed. id: as returned by
 * vg_virt_reboots_listen(); -1 is fine. */
void vg_virt_reboots_stop(virConnectPtr connection, int id);

/* Returns when the guest rebooted last (CLOCK_MONOTONIC), or 0. Returns 0 for NULL. Any thread. */
int64_t vg_virt_reboots_last_ns(vg_virt_reboots *reboots);

#endif
