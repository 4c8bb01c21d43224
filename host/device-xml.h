/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices in the XML of a domain: finds them, and creates the element for attaching them
 * elsewhere. Pure; any thread.
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
    char *alias; /* may be NULL; only live XML has the aliases that libvirt made */
    /* PCI, "0000:01:00.0", whose bus is libvirt's controller; may be NULL */
    char *guest_address;
    /* the path of slots in the guest's sysfs, such as "0000:00/02.1/00.0", which starts with the
     * root bus; NULL if unknown or if it has none */
    char *guest_path;
    /* "0000:41:00.0" for PCI, the UUID in lower case for MDEV, otherwise NULL */
    char *source_address;
    bool managed; /* a hostdev that libvirt itself binds to vfio-pci */
    char *xml;    /* the element */
};

/* Lists the devices of a domain, in their order. Returns NULL and sets *err if the XML is not a
 * domain. */
GPtrArray *vg_domain_devices_read(const char *xml, GError **err);

/* Reads one element alone, without guest_path. */
vg_domain_device *vg_domain_device_read(const char *xml, GError **err);
void vg_domain_device_free(void *device); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_domain_device, vg_domain_device_free)

/* Returns whether a device has this alias or this source_address. Both may be NULL. */
bool vg_domain_device_is(const vg_domain_device *device, const char *alias,
                         const char *source_address);

/* Returns the first device with this alias or source_address, borrowed, or NULL if not found. */
const vg_domain_device *vg_domain_devices_find(const GPtrArray *devices, const char *alias,
                                               const char *source_address);

/* Returns whether one of these devices of a domain has the guest's address. */
bool vg_domain_devices_occupy(const GPtrArray *devices, const char *guest_address);

/* Creates the element with this alias, this guest address (NULL to let libvirt choose) and, if it
 * is not NULL, this source_address. */
char *vg_device_xml_make(const char *xml, const char *alias, const char *guest_address,
                         const char *source_address, GError **err);

/* Returns a domain without the devices with these aliases or, if an item is not NULL, source
 * addresses; both have n items. *ret_changed: whether it had any of them. Returns NULL and sets
 * *err if the XML is not a domain. */
char *vg_domain_xml_without(const char *xml, const char *const *aliases,
                            const char *const *source_addresses, size_t n, bool *ret_changed,
                            GError **err);

/* Returns a domain where each device aliases[i] or, if not NULL, from[i] (a source address) has
 * the source address to[i]; all have n items. *ret_n: the number of them found. Returns NULL and
 * sets *err if the XML is not a domain, or such a device has no host address. */
char *vg_domain_xml_with_sources(const char *xml, const char *const *aliases,
                                 const char *const *from, const char *const *to, size_t n,
                                 size_t *ret_n, GError **err);

/* Returns whether <qemu:override> sets this property of QEMU's device to this value. */
bool vg_domain_xml_overrides(const char *xml, const char *alias, const char *property,
                             const char *value);

/* Returns whether a domain has a virtio port with this name for a program on the host. */
bool vg_domain_xml_has_channel(const char *xml, const char *name);

/* Returns whether libvirt reports, in live XML, that no program in the guest has this port open. */
bool vg_domain_xml_channel_is_closed(const char *xml, const char *name);

#endif
