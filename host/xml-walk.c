/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "host/xml-walk.h"

#include <stdlib.h>
#include <string.h>

#include <libxml/parser.h>

#include "base/error.h"

vg_xml *
vg_xml_parse(const char *text, const char *root, GError **err)
{
    size_t size = strlen(text);

    if (size > VG_XML_TEXT_MAX) {
        vg_error(err, VG_E_INVALID, "the XML has %zu bytes, but at most %d are accepted", size,
                 VG_XML_TEXT_MAX);
        return NULL;
    }
    g_autoptr(vg_xml) xml = xmlReadMemory(text, (int)size, NULL, NULL,
                                          XML_PARSE_NONET | XML_PARSE_NOERROR |
                                              XML_PARSE_NOWARNING | XML_PARSE_NOCDATA);
    if (!xml || xml->intSubset) {
        vg_error(err, VG_E_INVALID, "malformed XML%s", xml ? ": it has a DOCTYPE" : "");
        return NULL;
    }
    const xmlNode *element = vg_xml_root(xml);
    if (!element || (root && strcmp((const char *)element->name, root) != 0)) {
        vg_error(err, VG_E_INVALID, "the XML is not a <%s>", root);
        return NULL;
    }
    return g_steal_pointer(&xml);
}

void
vg_xml_free(vg_xml *xml)
{
    if (xml)
        xmlFreeDoc(xml);
}

const xmlNode *
vg_xml_root(const vg_xml *xml)
{
    return xmlDocGetRootElement(xml);
}

static const xmlNode *
xml_walk_find(const xmlNode *from, const char *name)
{
    for (const xmlNode *node = from; node; node = node->next)
        if (node->type == XML_ELEMENT_NODE && strcmp((const char *)node->name, name) == 0)
            return node;
    return NULL;
}

const xmlNode *
vg_xml_child(const xmlNode *node, const char *name)
{
    return node ? xml_walk_find(node->children, name) : NULL;
}

const xmlNode *
vg_xml_next(const xmlNode *node)
{
    return xml_walk_find(node->next, (const char *)node->name);
}

const xmlNode *
vg_xml_at(const xmlNode *node, const char *path)
{
    g_auto(GStrv) names = g_strsplit(path, "/", -1);

    for (char **name = names; *name; name++)
        node = vg_xml_child(node, *name);
    return node;
}

/* Copies a text, truncated to its limit, and frees the libxml2 string. */
static char *
bounded(xmlChar *take_text, size_t max)
{
    if (!take_text)
        return NULL;
    g_autofree char *text = g_utf8_make_valid((const char *)take_text, -1);
    xmlFree(take_text);
    g_strstrip(text);
    size_t length = strlen(text);
    if (length > max)
        text[g_utf8_find_prev_char(text, text + max + 1) - text] = '\0';
    return *text ? g_steal_pointer(&text) : NULL;
}

char *
vg_xml_text(const xmlNode *node, size_t max)
{
    return node ? bounded(xmlNodeGetContent(node), max) : NULL;
}

char *
vg_xml_attribute(const xmlNode *node, const char *name, size_t max)
{
    return node ? bounded(xmlGetProp(node, (const xmlChar *)name), max) : NULL;
}

bool
vg_xml_attribute_is(const xmlNode *node, const char *name, const char *value)
{
    g_autofree char *text = vg_xml_attribute(node, name, strlen(value) + 1);

    return text && strcmp(text, value) == 0;
}

static int64_t
xml_walk_number_of(const char *text, int64_t max, int64_t fallback)
{
    uint64_t value;
    bool hex = text && g_ascii_strncasecmp(text, "0x", 2) == 0;

    if (!text || !g_ascii_string_to_unsigned(hex ? text + 2 : text, hex ? 16 : 10, 0, (uint64_t)max,
                                             &value, NULL))
        return fallback;
    return (int64_t)value;
}

/* The maximum number of digits; no number is longer. */
#define DIGITS_MAX 32

int64_t
vg_xml_number(const xmlNode *node, int64_t max, int64_t fallback)
{
    g_autofree char *text = vg_xml_text(node, DIGITS_MAX);

    return xml_walk_number_of(text, max, fallback);
}

int64_t
vg_xml_attribute_number(const xmlNode *node, const char *name, int64_t max, int64_t fallback)
{
    g_autofree char *text = vg_xml_attribute(node, name, DIGITS_MAX);

    return xml_walk_number_of(text, max, fallback);
}

char *
vg_xml_pci_address(const xmlNode *node)
{
    static const struct {
        const char *name;
        int64_t max;
    } parts[] = {{"domain", 0xffffff}, {"bus", 255}, {"slot", 31}, {"function", 7}};
    int64_t values[G_N_ELEMENTS(parts)];

    for (size_t i = 0; i < G_N_ELEMENTS(parts); i++) {
        const xmlNode *element = vg_xml_child(node, parts[i].name);
        values[i] = element ? vg_xml_number(element, parts[i].max, -1)
                            : vg_xml_attribute_number(node, parts[i].name, parts[i].max, -1);
        if (values[i] < 0)
            return NULL;
    }
    return g_strdup_printf("%04x:%02x:%02x.%x", (unsigned)values[0], (unsigned)values[1],
                           (unsigned)values[2], (unsigned)values[3]);
}

char *
vg_xml_write(const xmlNode *node)
{
    xmlBuffer *buffer = xmlBufferCreate();

    xmlNodeDump(buffer, node->doc, (xmlNode *)node, 0, 0);
    char *text = g_strdup((const char *)xmlBufferContent(buffer));
    xmlBufferFree(buffer);
    return text;
}
