/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists the devices of a libvirt host that matter for GPUs.
 */
#ifndef VG_HOST_VIRT_DEVICES_H
#define VG_HOST_VIRT_DEVICES_H

#include <stdbool.h>

#include <glib.h>
#include <libvirt/libvirt.h>

#include "host/node-device.h"

/* Lists GPUs, mdevs (also those that are not started) and functions that may belong to a GPU's
 * card: vg_node_device, by name, freed with the array. Returns NULL if libvirt does not answer;
 * virGetLastError() has the reason. boring has names that were found to be none of these (char *,
 * owned); they are not read again, and new ones are added. If it is NULL, all are read. Calls
 * libvirt, and blocks as long as it does. */
GPtrArray *vg_virt_devices_list(virConnectPtr connection, GHashTable *boring);

/* Returns whether the list failed because a connection between libvirt's daemons is lost: reads
 * virGetLastError(). virtqemud forwards these calls to virtnodedevd, and does not connect to it
 * again for the same client after a restart of virtnodedevd. A new connection of the client may
 * help, and is needed for events of devices. */
bool vg_virt_devices_cut(void);

#endif
