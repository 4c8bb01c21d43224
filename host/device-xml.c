/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "host/device-xml.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "host/xml-walk.h"

#define TEXT_BYTES_MAX 1024
/* The maximum number of bridges that a device may be behind. */
#define BRIDGES_MAX 16
#define BUS_MAX     255

/* ---- where the guest finds a device ---- */

/* Finds the controller that creates this bus, or returns NULL. */
static const xmlNode *
controller_of(const xmlNode *devices, int64_t bus)
{
    const xmlNode *controller = vg_xml_child(devices, "controller");

    while (controller && (!vg_xml_attribute_is(controller, "type", "pci") ||
                          vg_xml_attribute_number(controller, "index", BUS_MAX, -1) != bus))
        controller = vg_xml_next(controller);
    return controller;
}

/* Reads the bus of a PCI address, and the rest of the address. Returns -1 if it is not a PCI
 * address. */
static int64_t
bus_of(const xmlNode *address, unsigned *ret_slot, unsigned *ret_function)
{
    g_autofree char *text =
        vg_xml_attribute_is(address, "type", "pci") ? vg_xml_pci_address(address) : NULL;
    unsigned domain, bus;

    if (!text || sscanf(text, "%x:%x:%x.%x", &domain, &bus, ret_slot, ret_function) != 4)
        return -1;
    return bus;
}

/* Returns the part of a path for a bus that is below no other bus. Returns NULL if it is below one,
 * or unknown. */
static char *
root_of(const xmlNode *controller, int64_t bus)
{
    if (bus == 0)
        return g_strdup("0000:00");
    if (!vg_xml_attribute_is(controller, "model", "pcie-expander-bus"))
        return NULL;
    int64_t number = vg_xml_number(vg_xml_at(controller, "target/busNr"), BUS_MAX, -1);
    return number < 0 ? NULL : g_strdup_printf("0000:%02x", (unsigned)number);
}

/* Returns the guest's path of a device. The bus in libvirt's address is the index of a controller,
 * which the guest does not know. The guest also sees the slots of the bridges in between. */
static char *
device_xml_path_of(const xmlNode *devices, const xmlNode *address)
{
    g_autofree char *path = g_strdup("");

    for (int i = 0; i < BRIDGES_MAX; i++) {
        unsigned slot, function;
        int64_t bus = bus_of(address, &slot, &function);
        if (bus < 0)
            return NULL;
        char *longer = g_strdup_printf("/%02x.%x%s", slot, function, path);
        g_free(path);
        path = longer;
        const xmlNode *controller = controller_of(devices, bus);
        g_autofree char *root = root_of(controller, bus);
        if (root)
            return g_strconcat(root, path, NULL);
        /* QEMU adds its own bridge behind this one. */
        if (vg_xml_attribute_is(controller, "model", "pci-expander-bus"))
            return NULL;
        address = vg_xml_child(controller, "address");
    }
    return NULL;
}

/* ---- reading ---- */

static void
device_xml_read_source(const xmlNode *node, vg_domain_device *device)
{
    const xmlNode *address = vg_xml_at(node, "source/address");

    if (strcmp((const char *)node->name, "hostdev") != 0)
        return;
    device->managed = vg_xml_attribute_is(node, "managed", "yes");
    if (vg_xml_attribute_is(node, "type", "mdev")) {
        g_autofree char *uuid = vg_xml_attribute(address, "uuid", TEXT_BYTES_MAX);
        device->source_address = uuid ? g_ascii_strdown(uuid, -1) : NULL;
        device->kind = uuid ? VG_DOMAIN_DEVICE_MDEV : VG_DOMAIN_DEVICE_OTHER;
    } else if (vg_xml_attribute_is(node, "type", "pci")) {
        device->source_address = vg_xml_pci_address(address);
        device->kind = device->source_address ? VG_DOMAIN_DEVICE_PCI : VG_DOMAIN_DEVICE_OTHER;
    }
}

static vg_domain_device *
device_xml_read_device(const xmlNode *node)
{
    vg_domain_device *device = g_new0(vg_domain_device, 1);
    const xmlNode *address = vg_xml_child(node, "address");

    device->alias = vg_xml_attribute(vg_xml_child(node, "alias"), "name", TEXT_BYTES_MAX);
    if (vg_xml_attribute_is(address, "type", "pci"))
        device->guest_address = vg_xml_pci_address(address);
    device_xml_read_source(node, device);
    device->xml = vg_xml_write(node);
    return device;
}

GPtrArray *
vg_domain_devices_read(const char *xml, GError **err)
{
    g_autoptr(vg_xml) doc = vg_xml_parse(xml, "domain", err);

    if (!doc)
        return NULL;
    const xmlNode *devices = vg_xml_child(vg_xml_root(doc), "devices");
    GPtrArray *all = g_ptr_array_new_with_free_func(vg_domain_device_free);
    for (const xmlNode *node = devices ? devices->children : NULL; node; node = node->next) {
        if (node->type != XML_ELEMENT_NODE)
            continue;
        vg_domain_device *device = device_xml_read_device(node);
        device->guest_path = device_xml_path_of(devices, vg_xml_child(node, "address"));
        g_ptr_array_add(all, device);
    }
    return all;
}

vg_domain_device *
vg_domain_device_read(const char *xml, GError **err)
{
    g_autoptr(vg_xml) doc = vg_xml_parse(xml, NULL, err);

    return doc ? device_xml_read_device(vg_xml_root(doc)) : NULL;
}

void
vg_domain_device_free(void *free_device)
{
    vg_domain_device *device = free_device;

    if (!device)
        return;
    g_free(device->alias);
    g_free(device->guest_address);
    g_free(device->guest_path);
    g_free(device->source_address);
    g_free(device->xml);
    g_free(device);
}

bool
vg_domain_device_is(const vg_domain_device *device, const char *alias, const char *source_address)
{
    return (alias && device->alias && strcmp(device->alias, alias) == 0) ||
           (source_address && device->source_address &&
            g_ascii_strcasecmp(device->source_address, source_address) == 0);
}

const vg_domain_device *
vg_domain_devices_find(const GPtrArray *devices, const char *alias, const char *source_address)
{
    for (unsigned i = 0; i < devices->len; i++)
        if (vg_domain_device_is(devices->pdata[i], alias, source_address))
            return devices->pdata[i];
    return NULL;
}

bool
vg_domain_devices_occupy(const GPtrArray *devices, const char *guest_address)
{
    for (unsigned i = 0; guest_address && i < devices->len; i++) {
        const vg_domain_device *device = devices->pdata[i];
        if (device->guest_address && strcmp(device->guest_address, guest_address) == 0)
            return true;
    }
    return false;
}

/* ---- making ---- */

static void
remove_children(xmlNode *node, const char *name)
{
    for (xmlNode *child = node->children; child;) {
        xmlNode *next = child->next;
        if (child->type == XML_ELEMENT_NODE && strcmp((const char *)child->name, name) == 0) {
            xmlUnlinkNode(child);
            xmlFreeNode(child);
        }
        child = next;
    }
}

static void
set_attribute(xmlNode *node, const char *name, const char *value)
{
    xmlSetProp(node, (const xmlChar *)name, (const xmlChar *)value);
}

static int
set_pci_address(xmlNode *node, const char *text, GError **err)
{
    static const struct {
        const char *name;
        int digits;
    } parts[] = {{"domain", 4}, {"bus", 2}, {"slot", 2}, {"function", 1}};
    unsigned values[G_N_ELEMENTS(parts)];

    if (sscanf(text, "%x:%x:%x.%x", &values[0], &values[1], &values[2], &values[3]) != 4)
        return vg_error(err, VG_E_INVALID, "'%s' is not a PCI address such as 0000:41:00.0", text);
    for (size_t i = 0; i < G_N_ELEMENTS(parts); i++) {
        char value[16];
        snprintf(value, sizeof value, "0x%0*x", parts[i].digits, values[i]);
        set_attribute(node, parts[i].name, value);
    }
    return 0;
}

static int
set_source(xmlNode *root, const char *source_address, GError **err)
{
    xmlNode *address = (xmlNode *)vg_xml_at(root, "source/address");

    if (strcmp((const char *)root->name, "hostdev") != 0 || !address)
        return vg_error(err, VG_E_INVALID,
                        "a <%s> is not a passed-through device and cannot have the address %s",
                        (const char *)root->name, source_address);
    if (!vg_xml_attribute_is(root, "type", "mdev"))
        return set_pci_address(address, source_address, err);
    set_attribute(address, "uuid", source_address);
    return 0;
}

char *
vg_device_xml_make(const char *xml, const char *alias, const char *guest_address,
                   const char *source_address, GError **err)
{
    g_autoptr(vg_xml) doc = vg_xml_parse(xml, NULL, err);

    if (!doc)
        return NULL;
    xmlNode *root = (xmlNode *)vg_xml_root(doc);
    remove_children(root, "alias");
    remove_children(root, "address");
    set_attribute(xmlNewChild(root, NULL, (const xmlChar *)"alias", NULL), "name", alias);
    if (guest_address) {
        xmlNode *address = xmlNewChild(root, NULL, (const xmlChar *)"address", NULL);
        set_attribute(address, "type", "pci");
        if (set_pci_address(address, guest_address, err) < 0)
            return NULL;
    }
    if (source_address && set_source(root, source_address, err) < 0)
        return NULL;
    return vg_xml_write(root);
}

/* Returns the index of a node among n devices, or n if it is none of them. */
static size_t
device_xml_which(const xmlNode *node, const char *const *aliases,
                 const char *const *source_addresses, size_t n)
{
    g_autoptr(vg_domain_device) device = device_xml_read_device(node);
    size_t i = 0;

    while (i < n && !vg_domain_device_is(device, aliases[i], source_addresses[i]))
        i++;
    return i;
}

char *
vg_domain_xml_without(const char *xml, const char *const *aliases,
                      const char *const *source_addresses, size_t n, bool *ret_changed,
                      GError **err)
{
    g_autoptr(vg_xml) doc = vg_xml_parse(xml, "domain", err);
    bool changed = false;

    if (!doc)
        return NULL;
    const xmlNode *devices = vg_xml_child(vg_xml_root(doc), "devices");
    for (xmlNode *node = devices ? devices->children : NULL; node;) {
        xmlNode *next = node->next;
        if (node->type == XML_ELEMENT_NODE &&
            device_xml_which(node, aliases, source_addresses, n) < n) {
            xmlUnlinkNode(node);
            xmlFreeNode(node);
            changed = true;
        }
        node = next;
    }
    *ret_changed = changed;
    return vg_xml_write(vg_xml_root(doc));
}

char *
vg_domain_xml_with_sources(const char *xml, const char *const *aliases, const char *const *from,
                           const char *const *to, size_t n, size_t *ret_n, GError **err)
{
    g_autoptr(vg_xml) doc = vg_xml_parse(xml, "domain", err);
    size_t found = 0;

    if (!doc)
        return NULL;
    const xmlNode *devices = vg_xml_child(vg_xml_root(doc), "devices");
    for (xmlNode *node = devices ? devices->children : NULL; node; node = node->next) {
        const size_t i =
            node->type == XML_ELEMENT_NODE ? device_xml_which(node, aliases, from, n) : n;
        if (i < n && set_source(node, to[i], err) < 0)
            return NULL;
        found += i < n;
    }
    *ret_n = found;
    return vg_xml_write(vg_xml_root(doc));
}

bool
vg_domain_xml_overrides(const char *xml, const char *alias, const char *property, const char *value)
{
    g_autoptr(vg_xml) doc = vg_xml_parse(xml, "domain", NULL);
    const xmlNode *device = doc ? vg_xml_at(vg_xml_root(doc), "override/device") : NULL;
    bool overrides = false;

    for (; device; device = vg_xml_next(device)) {
        const xmlNode *at = vg_xml_at(device, "frontend/property");
        for (; at && vg_xml_attribute_is(device, "alias", alias); at = vg_xml_next(at))
            overrides = overrides || (vg_xml_attribute_is(at, "name", property) &&
                                      vg_xml_attribute_is(at, "value", value));
    }
    return overrides;
}

static const xmlNode *
xml_find_channel_target(const vg_xml *doc, const char *name)
{
    const xmlNode *channel = vg_xml_at(vg_xml_root(doc), "devices/channel");

    while (channel && !vg_xml_attribute_is(vg_xml_child(channel, "target"), "name", name))
        channel = vg_xml_next(channel);
    return channel ? vg_xml_child(channel, "target") : NULL;
}

bool
vg_domain_xml_has_channel(const char *xml, const char *name)
{
    g_autoptr(vg_xml) doc = vg_xml_parse(xml, "domain", NULL);

    return doc && xml_find_channel_target(doc, name);
}

bool
vg_domain_xml_channel_is_closed(const char *xml, const char *name)
{
    g_autoptr(vg_xml) doc = vg_xml_parse(xml, "domain", NULL);
    const xmlNode *target = doc ? xml_find_channel_target(doc, name) : NULL;

    return target && vg_xml_attribute_is(target, "state", "disconnected");
}
