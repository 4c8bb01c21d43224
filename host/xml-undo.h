/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares elements of XML, and takes a change of one back that others may have changed since.
 * Pure; any thread, each with documents of its own.
 */
#ifndef VG_HOST_XML_UNDO_H
#define VG_HOST_XML_UNDO_H

#include "host/xml-walk.h"

/* Returns an element with all below it in a form in which two that mean the same are equal:
 * attributes by name, without prefixes, and without blanks around texts. */
char *vg_xml_canonical(const xmlNode *node);

/* Returns the child elements of one element (struct of libxml2, borrowed) that another one has not,
 * each as often as it has more of them. Either may be NULL. Those of these names, which end with
 * NULL, are left out. */
GPtrArray *vg_xml_only_in(const xmlNode *one, const xmlNode *other, const char *const *left_out);

/* Takes back in an element what made `before` of it `after`, attribute by attribute and child by
 * child: what somebody has changed since stays, with a sentence in kept (char *). Children are
 * known by their name and the attributes name and alias; one that was new and has such an attribute
 * goes whatever its others are now. before may be NULL; an element that is empty then is for the
 * caller to remove. */
void vg_xml_undo(xmlNode *now, const xmlNode *before, const xmlNode *after, GPtrArray *kept);

/* Returns whether an element has neither attributes nor children. */
bool vg_xml_is_empty(const xmlNode *node);

/* Takes an element out of its document and frees it. */
void vg_xml_remove(xmlNode *take_node);

#endif
