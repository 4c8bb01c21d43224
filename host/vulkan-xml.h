/* SPDX-License-Identifier: Apache-2.0
 *
 * Adds Vulkan (Venus on virtio-gpu) to the XML of a domain, and removes it again. The changes are
 * recorded in the domain's metadata, so that they can be reverted even if the domain has been
 * changed in other ways in the meantime. Pure; any thread.
 */
#ifndef VG_HOST_VULKAN_XML_H
#define VG_HOST_VULKAN_XML_H

#include <stdbool.h>
#include <stdint.h>

#include <glib.h>

#include "model/vulkan.h"

/* The name space of the element that is kept in the metadata, and its prefix. */
#define VG_VULKAN_XML_URI    "https://vgpud.invalid/xmlns/vulkan/1"
#define VG_VULKAN_XML_PREFIX "vgpud"

/* The directory of the emulators that let QEMU start programs (qemu-spawn.c), each with the name of
 * a QEMU. */
#define VG_VULKAN_EMULATORS VG_PKGLIBEXECDIR "/spawn"

/* The Vulkan configuration found in the XML of a domain. */
struct vg_vulkan_found {
    bool ours;             /* vgpud has added it */
    bool venus;            /* QEMU is configured to offer it, by vgpud or otherwise */
    bool loose;            /* QEMU is started by one of VG_VULKAN_EMULATORS */
    int64_t hostmem_bytes; /* of ours, or 0 */
};

int vg_vulkan_xml_read(const char *xml, struct vg_vulkan_found *ret, GError **err);

/* Returns the domain with Vulkan. Fails with VG_E_CONFLICT if the domain already has Vulkan by
 * other means, or if its video card or emulator cannot be changed in this way. */
char *vg_vulkan_xml_enable(const char *xml, const struct vg_vulkan_request *request, GError **err);

/* Checks that libvirt has kept all essential changes of vg_vulkan_xml_enable(). */
int vg_vulkan_xml_check(const char *xml, GError **err);

/* Creates the element for the metadata, which records the change from `before` to `after`. */
char *vg_vulkan_xml_note(const char *before, const char *after, int64_t hostmem_bytes,
                         GError **err);

/* Returns the domain without the changes recorded in its metadata, and without the record. kept:
 * gets sentences (char *) about parts that remain because they were changed since. Fails with
 * VG_E_CONFLICT if there is no record. */
char *vg_vulkan_xml_disable(const char *xml, GPtrArray *kept, GError **err);

/* Appends the differences between two domains as lines of XML (char *), after "- " and "+ ". The
 * metadata is ignored. */
int vg_vulkan_xml_compare(const char *before, const char *after, GPtrArray *lines, GError **err);

#endif
