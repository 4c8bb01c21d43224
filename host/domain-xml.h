/* SPDX-License-Identifier: Apache-2.0
 *
 * What libvirt's XML of a domain and of a host says. Pure; any thread.
 */
#ifndef VG_HOST_DOMAIN_XML_H
#define VG_HOST_DOMAIN_XML_H

#include <glib.h>

#include "model/inventory.h"

/* Fills in what the XML of a domain says: vcpus, memory, CPU model, pinning, devices, nova's
 * metadata; name and UUID where the record has none. Devices beyond VG_INVENTORY_DEVICES_MAX are
 * left out. host_cpu: the model that a guest gets who gets the host's; may be NULL. -1 and nothing
 * done if it is no domain. */
int vg_domain_xml_read(const char *xml, const char *host_cpu, struct vg_inv_vm *vm, GError **err);

/* UUID and CPU model of the host from its capabilities. */
int vg_capabilities_xml_read(const char *xml, vg_inventory *inventory, GError **err);

#endif
