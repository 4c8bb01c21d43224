/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices in the XML of a domain: finding them, and making the element that is attached elsewhere.
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
    char *alias;          /* NULL: none; only live XML has those that libvirt made */
    char *guest_address;  /* PCI, "0000:01:00.0", its bus being libvirt's controller; NULL: none */
    char *guest_path;     /* of slots, as the guest's sysfs has them: "0000:00/02.1/00.0", which
                           * begins with the root bus; NULL: none, or unknown */
    char *source_address; /* PCI: "0000:41:00.0"; MDEV: UUID, in lower case; else NULL */
    bool managed;         /* hostdev: libvirt gives it to vfio-pci itself */
    char *xml;            /* the element */
};

/* Of the devices of a domain, in their order; NULL and *err if it is no domain. */
GPtrArray *vg_domain_devices_read(const char *xml, GError **err);

/* Of one element alone: no guest_path. */
vg_domain_device *vg_domain_device_read(const char *xml, GError **err);
void vg_domain_device_free(void *device); /* NULL is fine */
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_domain_device, vg_domain_device_free)

/* Whether it has this alias, or (where it is not NULL) this source_address. */
bool vg_domain_device_is(const vg_domain_device *device, const char *alias,
                         const char *source_address);

/* The first one that is; borrowed. NULL: there is none. */
const vg_domain_device *vg_domain_devices_find(const GPtrArray *devices, const char *alias,
                                               const char *source_address);

/* The element with this alias and guest address (NULL: with none, libvirt finds one), and, where
 * it is not NULL, this source_address. */
char *vg_device_xml_make(const char *xml, const char *alias, const char *guest_address,
                         const char *source_address, GError **err);

/* A domain without the devices of these aliases or, where an item is not NULL, source addresses;
 * both have n items. *ret_changed: it had one of them. NULL and *err if it is no domain. */
char *vg_domain_xml_without(const char *xml, const char *const *aliases,
                            const char *const *source_addresses, size_t n, bool *ret_changed,
                            GError **err);

/* Whether a domain has a virtio port of this name for a program on the host. */
bool vg_domain_xml_has_channel(const char *xml, const char *name);

/* Whether libvirt says of that port, in a live XML, that no program in the guest has it open. */
bool vg_domain_xml_channel_is_closed(const char *xml, const char *name);

#endif
