/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares XML elements, and reverts a change of an element even if the element has been changed in
 * other ways since. Pure; any thread, each with its own documents.
 */
#ifndef VG_HOST_XML_UNDO_H
#define VG_HOST_XML_UNDO_H

#include "host/xml-walk.h"

/* Returns an element with its content in a canonical form: attributes sorted by name, without
 * prefixes, and without blanks around texts. Equivalent elements have equal forms. */
char *vg_xml_canonical(const xmlNode *node);

/* Returns the child elements of `one` (libxml2 nodes, borrowed) that `other` does not have;
 * repeated elements count separately. Either may be NULL. Elements with the names in left_out,
 * which ends with NULL, are ignored. */
GPtrArray *vg_xml_only_in(const xmlNode *one, const xmlNode *other, const char *const *left_out);

/* Reverts in an element the change from `before` to `after`, attribute by attribute and child by
 * child. Parts that were changed since remain, with a sentence in kept (char *). Children are
 * identified by their name and the attributes name and alias. A new child with such an attribute
 * is removed whatever its other attributes are now. before may be NULL; the caller then removes
 * the element if it becomes empty. */
void vg_xml_undo(xmlNode *now, const xmlNode *before, const xmlNode *after, GPtrArray *kept);

/* Returns whether an element has neither attributes nor children. */
bool vg_xml_is_empty(const xmlNode *node);

/* Takes an element out of its document and frees it. */
void vg_xml_remove(xmlNode *take_node);

#endif
