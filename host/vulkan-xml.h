/* SPDX-License-Identifier: Apache-2.0
 *
 * Puts Vulkan (Venus on virtio-gpu) into the XML of a domain, and takes it out again. What was
 * changed is kept in the domain's metadata, so that the change can be taken back when others have
 * changed the domain since. Pure; any thread.
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

/* What the XML of a domain says of Vulkan. */
struct vg_vulkan_found {
    bool ours;             /* vgpud has put it in */
    bool venus;            /* QEMU is told to offer it, whoever has put it in */
    bool loose;            /* QEMU is started by one of VG_VULKAN_EMULATORS */
    int64_t hostmem_bytes; /* of ours, or 0 */
};

int vg_vulkan_xml_read(const char *xml, struct vg_vulkan_found *ret, GError **err);

/* Returns the domain with Vulkan. Fails with VG_E_CONFLICT if it has that already by other means,
 * or its video card or emulator cannot be changed so. */
char *vg_vulkan_xml_enable(const char *xml, const struct vg_vulkan_request *request, GError **err);

/* Checks that libvirt has kept all that matters of what vg_vulkan_xml_enable() has put in. */
int vg_vulkan_xml_check(const char *xml, GError **err);

/* Makes the element for the metadata: what made `before` of the domain `after`. */
char *vg_vulkan_xml_note(const char *before, const char *after, int64_t hostmem_bytes,
                         GError **err);

/* Returns the domain without what the note in its metadata says, and without the note. kept: gets
 * sentences (char *) on what stays, as somebody has changed it since. Fails with VG_E_CONFLICT if
 * there is no note. */
char *vg_vulkan_xml_disable(const char *xml, GPtrArray *kept, GError **err);

/* Appends lines of XML (char *) that tell how two domains differ, after "- " and "+ ". The metadata
 * is left out. */
int vg_vulkan_xml_compare(const char *before, const char *after, GPtrArray *lines, GError **err);

#endif
