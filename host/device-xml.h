/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices in the XML of a domain: finds them, and makes the element that is attached elsewhere.
 * Pure; any thread.
 */
#ifndef VG_HOST_DEVICE_XML_H
#define VG_HOST_DEVICE_XML_H

#include <stdbool.h>

#include <glib.h>

enum vg_domain_device_kind {
    VG_DOMAIN_DEVICE_OTHER,
    VG_DOMAIN_DEVICE_PCI,  /* <hostdev type='pci'> */
    VG_DOMAIN_DEVICE_MDEV, /* <hostdev type='mdev'> */
};

/* An element below <devices>. */
typedef struct vg_domain_device vg_domain_device;
struct vg_domain_device {
    enum vg_domain_device_kind kind;
    char *alias; /* NULL if there is none; only live XML has those that libvirt made */
    /* PCI, "0000:01:00.0", whose bus is libvirt's controller; NULL if there is none */
    char *guest_address;
    /* the path of slots, as the guest's sysfs has them: "0000:00/02.1/00.0", which begins with the
     * root bus; NULL if there is none, or it is unknown */
    char *guest_path;
    /* "0000:41:00.0" for PCI, the UUID in lower case for MDEV, otherwise NULL */
    char *source_address;
    bool managed; /* a hostdev that libvirt itself gives to vfio-pci */
    char *xml;    /* the element */
};

/* Lists the devices of a domain, in their order. Returns NULL and sets *err if the XML is no
 * domain. */
GPtrArray *vg_domain_devices_read(const char *xml, GError **err);

/* Reads one element alone, without guest_path. */
vg_domain_device *vg_domain_device_read(const char *xml, GError **err);
void vg_domain_device_free(void *device); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_domain_device, vg_domain_device_free)

/* Returns whether a device has this alias or, if that is not NULL, this source_address. */
bool vg_domain_device_is(const vg_domain_device *device, const char *alias,
                         const char *source_address);

/* Finds the first such device. Returns NULL if there is none; borrowed. */
const vg_domain_device *vg_domain_devices_find(const GPtrArray *devices, const char *alias,
                                               const char *source_address);

/* Returns whether one of these devices of a domain has the guest's address. */
bool vg_domain_devices_occupy(const GPtrArray *devices, const char *guest_address);

/* Makes the element with this alias, this guest address (NULL for none, so that libvirt finds one)
 * and, if it is not NULL, this source_address. */
char *vg_device_xml_make(const char *xml, const char *alias, const char *guest_address,
                         const char *source_address, GError **err);

/* Returns a domain without the devices of these aliases or, where an item is not NULL, source
 * addresses; both have n items. *ret_changed: whether it had one of them. Returns NULL and sets
 * *err if the XML is no domain. */
char *vg_domain_xml_without(const char *xml, const char *const *aliases,
                            const char *const *source_addresses, size_t n, bool *ret_changed,
                            GError **err);

/* Returns a domain in which the device of aliases[i] or, if that is not NULL, source address
 * from[i] has the source address to[i]; all have n items. *ret_n: how many it has. Returns NULL and
 * sets *err if the XML is no domain, or such a device has no address of the host. */
char *vg_domain_xml_with_sources(const char *xml, const char *const *aliases,
                                 const char *const *from, const char *const *to, size_t n,
                                 size_t *ret_n, GError **err);

/* Returns whether <qemu:override> sets this property of QEMU's device to this value. */
bool vg_domain_xml_overrides(const char *xml, const char *alias, const char *property,
                             const char *value);

/* Returns whether a domain has a virtio port of this name for a program on the host. */
bool vg_domain_xml_has_channel(const char *xml, const char *name);

/* Returns whether libvirt says of that port, in live XML, that no program in the guest has it
 * open. */
bool vg_domain_xml_channel_is_closed(const char *xml, const char *name);

#endif
