/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside of a vg_virt_host: what the verbs on libvirt share.
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
    char *root;               /* "/" but in tests: where sysfs and /proc are */
    virConnectPtr connection; /* NULL: it was lost and could not be made again */
};

/* *err with what libvirt said last on this thread behind the text, VG_E_UNREACHABLE if the
 * connection is gone; returns -1. */
int vg_virt_host_failed(const vg_virt_host *host, GError **err, const char *fmt, ...)
    G_GNUC_PRINTF(3, 4);

/* Makes the connection again if it is gone. What every public verb begins with. */
int vg_virt_host_connect(vg_virt_host *host, GError **err);

/* VG_E_NOT_FOUND: there is none of this UUID. */
virDomainPtr vg_virt_host_domain(vg_virt_host *host, const char *uuid, GError **err);

/* XML of a domain. flags: virDomainXMLFlags; 0 is the live one of a domain that runs. */
char *vg_virt_host_xml(const vg_virt_host *host, virDomainPtr domain, unsigned flags, GError **err);

/* The vg_domain_devices of one. */
GPtrArray *vg_virt_host_devices(const vg_virt_host *host, virDomainPtr domain, unsigned flags,
                                GError **err);

/* As vg_virt_devices_list(). */
GPtrArray *vg_virt_host_node_devices(const vg_virt_host *host, GError **err);

/* GPUs, of these node devices, and all domains with their devices; nothing else is filled in. */
vg_inventory *vg_virt_host_inventory(const vg_virt_host *host, const GPtrArray *node_devices,
                                     GError **err);

/* A text that libvirt allocated, as g_free() can free it. */
char *vg_virt_own(char *take_text);

#endif
