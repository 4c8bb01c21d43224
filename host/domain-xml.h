/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads libvirt's XML of a domain and of a host. Pure; any thread.
 */
#ifndef VG_HOST_DOMAIN_XML_H
#define VG_HOST_DOMAIN_XML_H

#include <glib.h>

#include "model/inventory.h"

/* vgpud's element in the metadata of a domain: <policy mode='act'/>. */
#define VG_POLICY_XML_URI    "https://vgpud.invalid/xmlns/policy/1"
#define VG_POLICY_XML_PREFIX "vgpud-policy"

/* Fills in the contents of a domain's XML: vcpus, memory, CPU model, pinning, devices, the metadata
 * of nova and vgpud, and the name and UUID if the record has none. Devices beyond
 * VG_INVENTORY_DEVICES_MAX are left out. host_cpu is the model for guests that get the host's CPU,
 * or NULL. Returns -1, and changes nothing, if the XML is no domain. */
int vg_domain_xml_read(const char *xml, const char *host_cpu, struct vg_inv_vm *vm, GError **err);

/* Reads the UUID and the CPU model of the host from its capabilities. */
int vg_capabilities_xml_read(const char *xml, vg_inventory *inventory, GError **err);

/* Returns the user that libvirt starts QEMU as, from the capabilities of the host; -1 if they do
 * not state a user. */
int64_t vg_capabilities_xml_user(const char *xml);

#endif
