/* SPDX-License-Identifier: Apache-2.0
 *
 * The internals of a vg_virt_host: helpers that the verbs on libvirt share.
 */
#ifndef VG_ACTUATORS_VIRT_HOST_H
#define VG_ACTUATORS_VIRT_HOST_H

#include <stdbool.h>

#include <libvirt/libvirt.h>

#include "actuators/virt-move.h"
#include "host/device-xml.h"
#include "host/node-device.h"

G_DEFINE_AUTOPTR_CLEANUP_FUNC(virDomain, virDomainFree)

struct vg_virt_host {
    char *uri;
    char *root;               /* the parent directory of sys and proc: "/", except in tests */
    virConnectPtr connection; /* NULL if it was lost, and has not been re-established */
};

/* Sets *err to the text, followed by libvirt's last error on this thread. The code is
 * VG_E_UNREACHABLE if the connection is gone. Returns -1. */
int vg_virt_host_failed(const vg_virt_host *host, GError **err, const char *fmt, ...)
    G_GNUC_PRINTF(3, 4);

/* Re-establishes the connection if it is lost. Every public verb begins with this. */
int vg_virt_host_connect(vg_virt_host *host, GError **err);

/* Finds a domain. Fails with VG_E_NOT_FOUND if there is none of this UUID. */
virDomainPtr vg_virt_host_domain(vg_virt_host *host, const char *uuid, GError **err);

/* Returns the XML of a domain. flags: virDomainXMLFlags; 0 means the live XML of a running
 * domain. */
char *vg_virt_host_xml(const vg_virt_host *host, virDomainPtr domain, unsigned flags, GError **err);

/* Lists the devices of a domain, as vg_domain_devices does. */
GPtrArray *vg_virt_host_devices(const vg_virt_host *host, virDomainPtr domain, unsigned flags,
                                GError **err);

/* Returns whether one of these devices of a domain has the guest's address. */
bool vg_virt_host_is_occupied(const GPtrArray *devices, const char *guest_address);

/* Lists the host's devices, as vg_virt_devices_list() does. */
GPtrArray *vg_virt_host_node_devices(const vg_virt_host *host, GError **err);

/* Makes an inventory of the GPUs among these node devices, and of all domains with their devices;
 * nothing else is filled in. */
vg_inventory *vg_virt_host_inventory(const vg_virt_host *host, const GPtrArray *node_devices,
                                     GError **err);

/* Copies a text that libvirt allocated, so that g_free() can free it. */
char *vg_virt_own(char *take_text);

#endif
