/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads XML from external sources. Texts are copies in valid UTF-8, without surrounding blanks,
 * truncated at a character to a maximum number of bytes; empty texts are NULL. Any thread, each
 * with its own documents.
 */
#ifndef VG_HOST_XML_WALK_H
#define VG_HOST_XML_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <glib.h>
#include <libxml/tree.h>

#define VG_XML_TEXT_MAX (16 * 1024 * 1024)

typedef xmlDoc vg_xml;

/* Parses a document, whose root must have this name unless that is NULL. Fails with VG_E_INVALID
 * otherwise, and for anything with a DOCTYPE: libvirt writes none, and with entities small
 * documents become large. */
vg_xml *vg_xml_parse(const char *text, const char *root, GError **err);
void vg_xml_free(vg_xml *xml);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(vg_xml, vg_xml_free)

const xmlNode *vg_xml_root(const vg_xml *xml);

/* Return the first child element with this name, and the next with the same name, or NULL if not
 * found or if node is NULL. Name spaces are ignored. */
const xmlNode *vg_xml_child(const xmlNode *node, const char *name);
const xmlNode *vg_xml_next(const xmlNode *node);

/* Returns a descendant by a path of names joined by "/". */
const xmlNode *vg_xml_at(const xmlNode *node, const char *path);

/* These return NULL for a node that is NULL. */
char *vg_xml_text(const xmlNode *node, size_t max);
char *vg_xml_attribute(const xmlNode *node, const char *name, size_t max);
bool vg_xml_attribute_is(const xmlNode *node, const char *name, const char *value);

/* Reads a decimal number, or a hexadecimal number after 0x. Returns fallback if it is missing,
 * malformed, or above max. */
int64_t vg_xml_number(const xmlNode *node, int64_t max, int64_t fallback);
int64_t vg_xml_attribute_number(const xmlNode *node, const char *name, int64_t max,
                                int64_t fallback);

/* Returns "0000:41:00.0" for an element with the attributes domain, bus, slot and function, or with
 * elements of these names; NULL if one is missing. */
char *vg_xml_pci_address(const xmlNode *node);

/* Returns the element as a text of its own. */
char *vg_xml_write(const xmlNode *node);

#endif
