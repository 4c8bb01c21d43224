/* SPDX-License-Identifier: Apache-2.0
 *
 * Mediated devices that vgpud creates for arriving VMs, and their removal on the thread of a
 * link.
 */
#ifndef VG_ACTUATORS_VIRT_MDEV_H
#define VG_ACTUATORS_VIRT_MDEV_H

#include "actuators/virt-host.h"

/* Returns a new UUID, which vg_mdev_uuid_is_own() recognises on any host as created by vgpud. */
char *vg_mdev_uuid_new(void);
bool vg_mdev_uuid_is_own(const char *uuid);

/* Creates a mediated device. parent: libvirt's name of the GPU. Returns its UUID, or NULL, with
 * libvirt's last error on this thread. */
char *vg_virt_host_make_mdev(vg_virt_host *host, const char *parent, const char *type);

#endif
