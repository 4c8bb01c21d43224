/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "host/xml-undo.h"

#include <string.h>

#define VALUE_BYTES_MAX 65536

/* ---- comparing ---- */

static int
xml_undo_compare_names(const void *a, const void *b)
{
    const xmlAttr *const *one = a, *const *other = b;

    return strcmp((const char *)(*one)->name, (const char *)(*other)->name);
}

static void
xml_undo_write(const xmlNode *node, GString *text)
{
    g_autoptr(GPtrArray) attributes = g_ptr_array_new();

    g_string_append_printf(text, "<%s", (const char *)node->name);
    for (xmlAttr *attribute = node->properties; attribute; attribute = attribute->next)
        g_ptr_array_add(attributes, attribute);
    g_ptr_array_sort(attributes, xml_undo_compare_names);
    for (guint i = 0; i < attributes->len; i++) {
        const char *name = (const char *)((const xmlAttr *)attributes->pdata[i])->name;
        g_autofree char *value = vg_xml_attribute(node, name, VALUE_BYTES_MAX);
        g_autofree char *escaped = g_markup_escape_text(value ? value : "", -1);
        g_string_append_printf(text, " %s='%s'", name, escaped);
    }
    g_string_append_c(text, '>');
    for (const xmlNode *child = node->children; child; child = child->next) {
        if (child->type == XML_ELEMENT_NODE) {
            xml_undo_write(child, text);
        } else if (child->type == XML_TEXT_NODE || child->type == XML_CDATA_SECTION_NODE) {
            g_autofree char *content = g_strstrip(g_strdup((const char *)child->content));
            g_autofree char *escaped = g_markup_escape_text(content, -1);
            g_string_append(text, escaped);
        }
    }
    g_string_append(text, "</>");
}

char *
vg_xml_canonical(const xmlNode *node)
{
    GString *text = g_string_new(NULL);

    xml_undo_write(node, text);
    return g_string_free(text, FALSE);
}

GPtrArray *
vg_xml_only_in(const xmlNode *one, const xmlNode *other, const char *const *left_out)
{
    g_autoptr(GPtrArray) others = g_ptr_array_new_with_free_func(g_free);
    GPtrArray *only = g_ptr_array_new();

    for (const xmlNode *node = other ? other->children : NULL; node; node = node->next)
        if (node->type == XML_ELEMENT_NODE)
            g_ptr_array_add(others, vg_xml_canonical(node));
    for (xmlNode *node = one ? one->children : NULL; node; node = node->next) {
        guint at;
        if (node->type != XML_ELEMENT_NODE ||
            (left_out && g_strv_contains(left_out, (const char *)node->name)))
            continue;
        g_autofree char *text = vg_xml_canonical(node);
        if (g_ptr_array_find_with_equal_func(others, text, g_str_equal, &at))
            g_ptr_array_remove_index_fast(others, at);
        else
            g_ptr_array_add(only, node);
    }
    return only;
}

/* ---- taking back ---- */

static bool
xml_undo_has_children(const xmlNode *node)
{
    const xmlNode *child = node->children;

    while (child && child->type != XML_ELEMENT_NODE)
        child = child->next;
    return child != NULL;
}

bool
vg_xml_is_empty(const xmlNode *node)
{
    return node->properties == NULL && !xml_undo_has_children(node);
}

void
vg_xml_remove(xmlNode *take_node)
{
    xmlUnlinkNode(take_node);
    xmlFreeNode(take_node);
}

static const char *const xml_undo_ids[] = {"name", "alias"};

static bool
xml_undo_is_named(const xmlNode *node)
{
    for (size_t i = 0; i < G_N_ELEMENTS(xml_undo_ids); i++)
        if (xmlHasProp((xmlNode *)node, (const xmlChar *)xml_undo_ids[i]))
            return true;
    return false;
}

static bool
xml_undo_is_same(const xmlNode *one, const xmlNode *other)
{
    bool same = strcmp((const char *)one->name, (const char *)other->name) == 0;

    for (size_t i = 0; i < G_N_ELEMENTS(xml_undo_ids) && same; i++) {
        g_autofree char *a = vg_xml_attribute(one, xml_undo_ids[i], VALUE_BYTES_MAX);
        g_autofree char *b = vg_xml_attribute(other, xml_undo_ids[i], VALUE_BYTES_MAX);
        same = g_strcmp0(a, b) == 0;
    }
    return same;
}

/* Finds the child of `in` that equals this one. */
static xmlNode *
xml_undo_find(const xmlNode *in, const xmlNode *child)
{
    for (xmlNode *node = in ? in->children : NULL; node; node = node->next)
        if (node->type == XML_ELEMENT_NODE && xml_undo_is_same(node, child))
            return node;
    return NULL;
}

static void
xml_undo_attribute(xmlNode *now, const xmlNode *before, const xmlNode *after, const char *name,
                   GPtrArray *kept)
{
    g_autofree char *is = vg_xml_attribute(now, name, VALUE_BYTES_MAX);
    g_autofree char *was = vg_xml_attribute(before, name, VALUE_BYTES_MAX);
    g_autofree char *became = vg_xml_attribute(after, name, VALUE_BYTES_MAX);

    if (g_strcmp0(was, became) == 0 || g_strcmp0(is, was) == 0)
        return;
    if (g_strcmp0(is, became) != 0)
        g_ptr_array_add(kept, g_strdup_printf("%s='%s' of <%s> was not set by vgpud and remains",
                                              name, is ? is : "", (const char *)now->name));
    else if (was)
        xmlSetProp(now, (const xmlChar *)name, (const xmlChar *)was);
    else
        xmlUnsetProp(now, (const xmlChar *)name);
}

static void
xml_undo_attributes(xmlNode *now, const xmlNode *before, const xmlNode *after, GPtrArray *kept)
{
    const xmlNode *sides[] = {after, before};

    for (size_t i = 0; i < G_N_ELEMENTS(sides); i++)
        for (const xmlAttr *at = sides[i] ? sides[i]->properties : NULL; at; at = at->next)
            xml_undo_attribute(now, before, after, (const char *)at->name, kept);
}

/* Reverses the changes of an element's children. */
static void xml_undo_children(xmlNode *now, const xmlNode *before, const xmlNode *after,
                              GPtrArray *kept);

/* Removes a child that was added and has its own name, whatever its other attributes are now:
 * without one of them, it would mean nothing. */
static void
xml_undo_named(xmlNode *child, const xmlNode *after, GPtrArray *kept)
{
    xml_undo_children(child, NULL, after, kept);
    if (!xml_undo_has_children(child))
        vg_xml_remove(child);
    else
        g_ptr_array_add(kept, g_strdup_printf("<%s> contains more than vgpud added and remains",
                                              (const char *)child->name));
}

/* Reverses a child that was added or changed. */
static void
xml_undo_child(xmlNode *now, const xmlNode *before, const xmlNode *after, GPtrArray *kept)
{
    xmlNode *child = xml_undo_find(now, after);

    if (!child)
        return;
    if (!before && xml_undo_is_named(child)) {
        xml_undo_named(child, after, kept);
        return;
    }
    vg_xml_undo(child, before, after, kept);
    if (!before && vg_xml_is_empty(child))
        vg_xml_remove(child);
}

static void
xml_undo_children(xmlNode *now, const xmlNode *before, const xmlNode *after, GPtrArray *kept)
{
    for (const xmlNode *child = after->children; child; child = child->next)
        if (child->type == XML_ELEMENT_NODE)
            xml_undo_child(now, xml_undo_find(before, child), child, kept);
    for (const xmlNode *child = before ? before->children : NULL; child; child = child->next)
        if (child->type == XML_ELEMENT_NODE && !xml_undo_find(after, child) &&
            !xml_undo_find(now, child))
            xmlAddChild(now, xmlDocCopyNode((xmlNode *)child, now->doc, 1));
}

void
vg_xml_undo(xmlNode *now, const xmlNode *before, const xmlNode *after, GPtrArray *kept)
{
    xml_undo_attributes(now, before, after, kept);
    xml_undo_children(now, before, after, kept);
}
