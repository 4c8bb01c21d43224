/* SPDX-License-Identifier: Apache-2.0
 *
 * What each element of a domain means for a move to another host. Pure; any thread.
 */
#ifndef VG_HOST_DOMAIN_CLASS_H
#define VG_HOST_DOMAIN_CLASS_H

enum vg_domain_class {
    VG_DOMAIN_CLASS_NEW,        /* of a libvirt that is newer than the table */
    VG_DOMAIN_CLASS_TRAVELS,    /* it moves with the VM, and requires nothing of the target */
    VG_DOMAIN_CLASS_TARGET,     /* the object that it names must exist on the target */
    VG_DOMAIN_CLASS_BLOCKS,     /* with it, some or all VMs cannot be migrated */
    VG_DOMAIN_CLASS_IRRELEVANT, /* it is irrelevant to QEMU, or to a move */
    VG_DOMAIN_CLASS_MAX
};

/* Returns the class of an element at a path below <domain>, "devices/disk/source". */
enum vg_domain_class vg_domain_class_of(const char *path);

#endif
