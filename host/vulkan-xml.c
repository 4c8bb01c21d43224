/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources: formatdomain and drvqemu in libvirt's manual (blob, egl-headless, memfd, qemu:override);
 * docs/system/devices/virtio-gpu.rst of QEMU (venus, hostmem, blob, shared memory).
 */
#include "config.h"

#include "host/vulkan-xml.h"

#include <string.h>

#include "base/error.h"
#include "host/virtio-gpu.h"
#include "host/xml-undo.h"
#include "host/xml-walk.h"

#define TEXT_BYTES_MAX 4096
#define QEMU_URI       "http://libvirt.org/schemas/domain/qemu/1.0"
#define VIDEO_ALIAS    "ua-vulkan"

/* ---- helpers ---- */

static void
vulkan_set(xmlNode *node, const char *name, const char *value)
{
    xmlSetProp(node, (const xmlChar *)name, (const xmlChar *)value);
}

static xmlNode *
vulkan_child(xmlNode *parent, const char *name)
{
    xmlNode *child = (xmlNode *)vg_xml_child(parent, name);

    return child ? child : xmlNewChild(parent, NULL, (const xmlChar *)name, NULL);
}

static char *
vulkan_write(vg_xml *doc)
{
    return vg_xml_write(vg_xml_root(doc));
}

/* Finds the child with this name whose attribute has this value. */
static xmlNode *
vulkan_find(const xmlNode *parent, const char *name, const char *attribute, const char *value)
{
    const xmlNode *node = vg_xml_child(parent, name);

    while (node && !vg_xml_attribute_is(node, attribute, value))
        node = vg_xml_next(node);
    return (xmlNode *)node;
}

static char *
vulkan_alias_of(const xmlNode *device)
{
    return vg_xml_attribute(vg_xml_child(device, "alias"), "name", TEXT_BYTES_MAX);
}

static xmlNode *
vulkan_find_video(const xmlNode *devices, const char *alias)
{
    for (const xmlNode *video = vg_xml_child(devices, "video"); video; video = vg_xml_next(video)) {
        g_autofree char *name = vulkan_alias_of(video);
        if (g_strcmp0(name, alias) == 0)
            return (xmlNode *)video;
    }
    return NULL;
}

/* Finds the element in the metadata. */
static xmlNode *
vulkan_find_note(const xmlNode *domain)
{
    const xmlNode *note = vg_xml_at(domain, "metadata/vulkan");

    while (note && (!note->ns || strcmp((const char *)note->ns->href, VG_VULKAN_XML_URI) != 0))
        note = vg_xml_next(note);
    return (xmlNode *)note;
}

static char *
vulkan_emulator_of(const xmlNode *domain)
{
    return vg_xml_text(vg_xml_at(domain, "devices/emulator"), TEXT_BYTES_MAX);
}

/* ---- reading ---- */

/* Finds the video card for which QEMU is configured to offer Venus. */
static const xmlNode *
vulkan_find_venus(const xmlNode *domain)
{
    const xmlNode *device = vg_xml_at(domain, "override/device");

    for (; device; device = vg_xml_next(device)) {
        const xmlNode *venus =
            vulkan_find(vg_xml_child(device, "frontend"), "property", "name", "venus");
        g_autofree char *alias = vg_xml_attribute(device, "alias", TEXT_BYTES_MAX);
        const xmlNode *video =
            alias ? vulkan_find_video(vg_xml_child(domain, "devices"), alias) : NULL;
        if (video && vg_xml_attribute_is(venus, "value", "true"))
            return video;
    }
    return NULL;
}

int
vg_vulkan_xml_read(const char *xml, struct vg_vulkan_found *ret, GError **err)
{
    g_autoptr(vg_xml) doc = vg_xml_parse(xml, "domain", err);

    if (!doc)
        return -1;
    const xmlNode *domain = vg_xml_root(doc), *note = vulkan_find_note(domain);
    g_autofree char *emulator = vulkan_emulator_of(domain);
    *ret = (struct vg_vulkan_found){
        .ours = note != NULL,
        .loose = emulator && g_str_has_prefix(emulator, VG_VULKAN_EMULATORS "/"),
        .venus = vg_virtio_gpu_read(domain, NULL) == VG_VIRTIO_GPU_VENUS,
        .hostmem_bytes =
            note ? vg_xml_attribute_number(note, "hostmem_bytes", VG_VULKAN_HOSTMEM_MAX, 0) : 0,
    };
    return 0;
}

/* ---- putting in ---- */

/* Sets memfd as the memory source, which udmabuf needs to give the host's GPU guest memory. */
static void
vulkan_share_memory(xmlNode *domain)
{
    xmlNode *memory = vulkan_child(domain, "memoryBacking");

    vulkan_set(vulkan_child(memory, "source"), "type", "memfd");
    vulkan_set(vulkan_child(memory, "access"), "mode", "shared");
}

/* Makes the first video card a virtio card with blobs and 3D. Its address and heads remain. */
static xmlNode *
vulkan_change_video(xmlNode *devices, GError **err)
{
    static const char *const others[] = {"ram", "vram", "vram64", "vgamem"};
    xmlNode *video = vulkan_child(devices, "video");
    xmlNode *model = vulkan_child(video, "model"), *alias = vulkan_child(video, "alias");

    if (vg_xml_attribute_is(vg_xml_child(video, "driver"), "name", "vhostuser")) {
        vg_error(err, VG_E_CONFLICT,
                 "a vhost-user process emulates the video card (<driver name='vhostuser'>) and "
                 "cannot offer Venus");
        return NULL;
    }
    vulkan_set(model, "type", "virtio");
    vulkan_set(model, "blob", "on");
    for (size_t i = 0; i < G_N_ELEMENTS(others); i++)
        xmlUnsetProp(model, (const xmlChar *)others[i]);
    vulkan_set(vulkan_child(model, "acceleration"), "accel3d", "yes");
    if (!xmlHasProp(alias, (const xmlChar *)"name"))
        vulkan_set(alias, "name", VIDEO_ALIAS);
    return video;
}

/* Adds an egl-headless display: QEMU offers 3D if a display has OpenGL. It shows nothing and does
 * not disturb other displays. */
static void
vulkan_add_display(xmlNode *devices, const char *render_node)
{
    const xmlNode *graphics = vg_xml_child(devices, "graphics");

    for (; graphics; graphics = vg_xml_next(graphics))
        if (vg_xml_attribute_is(graphics, "type", "egl-headless") ||
            vg_xml_attribute_is(vg_xml_child(graphics, "gl"), "enable", "yes"))
            return;
    xmlNode *headless = xmlNewChild(devices, NULL, (const xmlChar *)"graphics", NULL);
    vulkan_set(headless, "type", "egl-headless");
    if (render_node)
        vulkan_set(vulkan_child(headless, "gl"), "rendernode", render_node);
}

static void
vulkan_add_property(xmlNode *frontend, xmlNs *qemu, const char *name, const char *type,
                    const char *value)
{
    xmlNode *property = vulkan_find(frontend, "property", "name", name);

    if (!property)
        property = xmlNewChild(frontend, qemu, (const xmlChar *)"property", NULL);
    vulkan_set(property, "name", name);
    vulkan_set(property, "type", type);
    vulkan_set(property, "value", value);
}

static void
vulkan_add_override(xmlNode *domain, const char *alias, int64_t hostmem_bytes)
{
    xmlNs *qemu = xmlSearchNsByHref(domain->doc, domain, (const xmlChar *)QEMU_URI);
    g_autofree char *hostmem = g_strdup_printf("%" G_GINT64_FORMAT, hostmem_bytes);

    if (!qemu)
        qemu = xmlNewNs(domain, (const xmlChar *)QEMU_URI, (const xmlChar *)"qemu");
    xmlNode *override = (xmlNode *)vg_xml_child(domain, "override");
    if (!override)
        override = xmlNewChild(domain, qemu, (const xmlChar *)"override", NULL);
    xmlNode *device = vulkan_find(override, "device", "alias", alias);
    if (!device)
        device = xmlNewChild(override, qemu, (const xmlChar *)"device", NULL);
    vulkan_set(device, "alias", alias);
    xmlNode *frontend = (xmlNode *)vg_xml_child(device, "frontend");
    if (!frontend)
        frontend = xmlNewChild(device, qemu, (const xmlChar *)"frontend", NULL);
    vulkan_add_property(frontend, qemu, "venus", "bool", "true");
    vulkan_add_property(frontend, qemu, "hostmem", "unsigned", hostmem);
}

/* Replaces the emulator with the program that lets QEMU start other programs. It has QEMU's name
 * and finds QEMU in one of two directories. */
static int
vulkan_change_emulator(xmlNode *domain, GError **err)
{
    g_autofree char *emulator = vulkan_emulator_of(domain);
    xmlNode *node = (xmlNode *)vg_xml_at(domain, "devices/emulator");
    const char *slash = emulator ? strrchr(emulator, '/') : NULL;
    g_autofree char *directory = slash ? g_strndup(emulator, (gsize)(slash - emulator)) : NULL;

    if (!directory)
        return vg_error(err, VG_E_CONFLICT,
                        "the VM's definition has no <emulator> that a wrapper could replace");
    if (strcmp(directory, "/usr/bin") != 0 && strcmp(directory, "/usr/libexec") != 0)
        return vg_error(
            err, VG_E_CONFLICT,
            "the emulator %s is not in /usr/bin or /usr/libexec, where " VG_VULKAN_EMULATORS
            " searches for it",
            emulator);
    g_autofree char *loose = g_strconcat(VG_VULKAN_EMULATORS, slash, NULL);
    g_autofree char *escaped = g_markup_escape_text(loose, -1);
    xmlNodeSetContent(node, (const xmlChar *)escaped);
    return 0;
}

char *
vg_vulkan_xml_enable(const char *xml, const struct vg_vulkan_request *request, GError **err)
{
    g_autoptr(vg_xml) doc = vg_xml_parse(xml, "domain", err);

    if (!doc)
        return NULL;
    xmlNode *domain = (xmlNode *)vg_xml_root(doc);
    if (vg_virtio_gpu_read(domain, NULL) == VG_VIRTIO_GPU_VENUS) {
        vg_error(err, VG_E_CONFLICT,
                 "the VM already has Venus through a <qemu:override> or QEMU argument that vgpud "
                 "did not add; nothing was changed");
        return NULL;
    }
    xmlNode *devices = vulkan_child(domain, "devices");
    const xmlNode *video = vulkan_change_video(devices, err);
    if (!video || (request->loosen_sandbox && vulkan_change_emulator(domain, err) < 0))
        return NULL;
    g_autofree char *alias = vulkan_alias_of(video);
    vulkan_add_display(devices, request->render_node);
    vulkan_share_memory(domain);
    vulkan_add_override(domain, alias,
                        request->hostmem_bytes > 0 ? request->hostmem_bytes
                                                   : VG_VULKAN_HOSTMEM_DEFAULT);
    return vulkan_write(doc);
}

int
vg_vulkan_xml_check(const char *xml, GError **err)
{
    g_autoptr(vg_xml) doc = vg_xml_parse(xml, "domain", err);
    const xmlNode *domain = doc ? vg_xml_root(doc) : NULL;
    const xmlNode *video = doc ? vulkan_find_venus(domain) : NULL;
    const xmlNode *memory = vg_xml_child(domain, "memoryBacking");
    const char *lacks = NULL;

    if (!doc)
        return -1;
    if (!video)
        lacks = "<qemu:override>, which needs libvirt 8.2";
    else if (!vg_xml_attribute_is(vg_xml_child(video, "model"), "blob", "on"))
        lacks = "blob='on' of the video card, which libvirt 11.3 supports and 9.0 does not";
    else if (!vg_xml_attribute_is(vg_xml_child(memory, "source"), "type", "memfd") ||
             !vg_xml_attribute_is(vg_xml_child(memory, "access"), "mode", "shared"))
        lacks = "shared memfd memory";
    return lacks ? vg_error(err, VG_E_EXTERNAL, "libvirt dropped %s", lacks) : 0;
}

/* ---- the note ---- */

static const char *const vulkan_not_compared[] = {"devices", "metadata", NULL};

/* Appends a domain with only those elements that another one does not have. */
static void
vulkan_add_only(GString *note, const char *name, const xmlNode *one, const xmlNode *other)
{
    g_autoptr(GString) text = g_string_new("<domain xmlns:qemu='" QEMU_URI "'>");
    g_autoptr(GPtrArray) top = vg_xml_only_in(one, other, vulkan_not_compared);
    g_autoptr(GPtrArray) devices =
        vg_xml_only_in(vg_xml_child(one, "devices"), vg_xml_child(other, "devices"), NULL);

    for (guint i = 0; i < top->len; i++) {
        g_autofree char *element = vg_xml_write(top->pdata[i]);
        g_string_append(text, element);
    }
    g_string_append(text, "<devices>");
    for (guint i = 0; i < devices->len; i++) {
        g_autofree char *element = vg_xml_write(devices->pdata[i]);
        g_string_append(text, element);
    }
    g_string_append(text, "</devices></domain>");
    g_autofree char *escaped = g_markup_escape_text(text->str, -1);
    g_string_append_printf(note, "<%s>%s</%s>", name, escaped, name);
}

char *
vg_vulkan_xml_note(const char *before, const char *after, int64_t hostmem_bytes, GError **err)
{
    g_autoptr(vg_xml) one = vg_xml_parse(before, "domain", err);
    g_autoptr(vg_xml) other = one ? vg_xml_parse(after, "domain", err) : NULL;

    if (!other)
        return NULL;
    GString *note = g_string_new(NULL);
    g_string_printf(note, "<vulkan hostmem_bytes='%" G_GINT64_FORMAT "'>", hostmem_bytes);
    vulkan_add_only(note, "before", vg_xml_root(one), vg_xml_root(other));
    vulkan_add_only(note, "after", vg_xml_root(other), vg_xml_root(one));
    g_string_append(note, "</vulkan>");
    return g_string_free(note, FALSE);
}

/* Reads one of the two domains in a note. */
static vg_xml *
vulkan_read_side(const xmlNode *note, const char *name, GError **err)
{
    g_autofree char *text = vg_xml_text(vg_xml_child(note, name), VG_XML_TEXT_MAX);
    vg_xml *doc = vg_xml_parse(text ? text : "", "domain", err);

    if (!doc)
        g_prefix_error(err, "vgpud's element in the VM's metadata cannot be read: ");
    return doc;
}

/* ---- taking out ---- */

/* Returns whether a device is on the bus that a PCI controller creates. */
static bool
vulkan_is_used(const xmlNode *devices, const xmlNode *controller)
{
    const int64_t index = vg_xml_attribute_number(controller, "index", 255, -1);

    for (const xmlNode *node = devices->children; node; node = node->next) {
        const xmlNode *address =
            node->type == XML_ELEMENT_NODE ? vg_xml_child(node, "address") : NULL;
        if (vg_xml_attribute_is(address, "type", "pci") &&
            vg_xml_attribute_number(address, "bus", 255, -1) == index)
            return true;
    }
    return false;
}

/* Finds the device that was added and may be removed. */
static xmlNode *
vulkan_find_new(const xmlNode *devices, const xmlNode *added)
{
    const char *name = (const char *)added->name;
    g_autofree char *text = vg_xml_canonical(added);

    if (strcmp(name, "video") == 0) {
        g_autofree char *alias = vulkan_alias_of(added);
        return vulkan_find_video(devices, alias);
    }
    if (strcmp(name, "graphics") == 0)
        return vulkan_find(devices, name, "type", "egl-headless");
    for (const xmlNode *node = vg_xml_child(devices, name); node; node = vg_xml_next(node)) {
        g_autofree char *other = vg_xml_canonical(node);
        if (strcmp(text, other) == 0 &&
            (strcmp(name, "controller") != 0 || !vulkan_is_used(devices, node)))
            return (xmlNode *)node;
    }
    return NULL;
}

/* Reverses the change of a video card that existed before. */
static void
vulkan_restore_video(const xmlNode *devices, const xmlNode *before, const xmlNode *after,
                     GPtrArray *kept)
{
    g_autofree char *alias = vulkan_alias_of(after);
    xmlNode *video = vulkan_find_video(devices, alias);

    if (video)
        vg_xml_undo(video, before, after, kept);
    else
        g_ptr_array_add(kept, g_strdup_printf("the video card '%s' no longer exists; the others "
                                              "remain unchanged",
                                              alias));
}

/* Reverses the change of the emulator, unless it has been changed since. */
static void
vulkan_restore_emulator(xmlNode *devices, const xmlNode *before, const xmlNode *after,
                        GPtrArray *kept)
{
    xmlNode *now = (xmlNode *)vg_xml_child(devices, "emulator");
    g_autofree char *ours = vg_xml_text(after, TEXT_BYTES_MAX);
    g_autofree char *text = now ? vg_xml_text(now, TEXT_BYTES_MAX) : NULL;

    if (g_strcmp0(ours, text) != 0) {
        g_ptr_array_add(kept, g_strdup_printf("the emulator is now %s and remains unchanged",
                                              text ? text : "none"));
        return;
    }
    xmlAddNextSibling(now, xmlDocCopyNode((xmlNode *)before, devices->doc, 1));
    vg_xml_remove(now);
}

static void
vulkan_restore_devices(xmlNode *devices, const xmlNode *before, const xmlNode *after,
                       GPtrArray *kept)
{
    const xmlNode *video = vg_xml_child(before, "video");
    const xmlNode *emulator = vg_xml_child(before, "emulator");

    if (emulator)
        vulkan_restore_emulator(devices, emulator, vg_xml_child(after, "emulator"), kept);
    for (const xmlNode *node = after ? after->children : NULL; node; node = node->next) {
        if (node->type != XML_ELEMENT_NODE || strcmp((const char *)node->name, "emulator") == 0)
            continue;
        if (video && strcmp((const char *)node->name, "video") == 0) {
            vulkan_restore_video(devices, video, node, kept);
            continue;
        }
        xmlNode *found = vulkan_find_new(devices, node);
        if (found)
            vg_xml_remove(found);
    }
    for (const xmlNode *node = before ? before->children : NULL; node; node = node->next)
        if (node->type == XML_ELEMENT_NODE && node != video && node != emulator &&
            !vulkan_find_new(devices, node))
            xmlAddChild(devices, xmlDocCopyNode((xmlNode *)node, devices->doc, 1));
}

static void
vulkan_remove_note(xmlNode *note)
{
    xmlNode *metadata = note->parent;

    vg_xml_remove(note);
    if (vg_xml_is_empty(metadata))
        vg_xml_remove(metadata);
}

char *
vg_vulkan_xml_disable(const char *xml, GPtrArray *kept, GError **err)
{
    g_autoptr(vg_xml) doc = vg_xml_parse(xml, "domain", err);

    if (!doc)
        return NULL;
    xmlNode *domain = (xmlNode *)vg_xml_root(doc), *note = vulkan_find_note(domain);
    if (!note) {
        vg_error(err, VG_E_CONFLICT,
                 vg_virtio_gpu_read(domain, NULL) == VG_VIRTIO_GPU_VENUS
                     ? "the VM has Venus, but vgpud did not add it and does not remove it"
                     : "vgpud has not added Vulkan to this VM");
        return NULL;
    }
    g_autoptr(vg_xml) before = vulkan_read_side(note, "before", err);
    g_autoptr(vg_xml) after = before ? vulkan_read_side(note, "after", err) : NULL;
    if (!after)
        return NULL;
    xmlNode *old = (xmlNode *)vg_xml_child(vg_xml_root(before), "devices");
    xmlNode *new = (xmlNode *)vg_xml_child(vg_xml_root(after), "devices");
    vulkan_restore_devices(vulkan_child(domain, "devices"), old, new, kept);
    if (old)
        vg_xml_remove(old);
    if (new)
        vg_xml_remove(new);
    vg_xml_undo(domain, vg_xml_root(before), vg_xml_root(after), kept);
    vulkan_remove_note(note);
    return vulkan_write(doc);
}

/* ---- telling ---- */

/* Appends an element as lines, indented by two blanks per level. */
static void
vulkan_append_lines(const xmlNode *node, const char *mark, int depth, GPtrArray *lines)
{
    g_autoptr(GString) line = g_string_new(NULL);
    const char *prefix = node->ns && node->ns->prefix ? (const char *)node->ns->prefix : NULL;
    g_autofree char *name = prefix ? g_strdup_printf("%s:%s", prefix, (const char *)node->name)
                                   : g_strdup((const char *)node->name);
    bool has_children = false;

    g_string_printf(line, "%s %*s<%s", mark, 2 * depth, "", name);
    for (const xmlAttr *at = node->properties; at; at = at->next) {
        g_autofree char *value = vg_xml_attribute(node, (const char *)at->name, TEXT_BYTES_MAX);
        g_autofree char *escaped = g_markup_escape_text(value ? value : "", -1);
        g_string_append_printf(line, " %s='%s'", (const char *)at->name, escaped);
    }
    for (const xmlNode *child = node->children; child; child = child->next)
        has_children = has_children || child->type == XML_ELEMENT_NODE;
    g_autofree char *text = has_children ? NULL : vg_xml_text(node, TEXT_BYTES_MAX);
    g_autofree char *escaped = text ? g_markup_escape_text(text, -1) : NULL;
    if (text)
        g_string_append_printf(line, ">%s</%s>", escaped, name);
    else
        g_string_append(line, has_children ? ">" : "/>");
    g_ptr_array_add(lines, g_strdup(line->str));
    for (const xmlNode *child = node->children; child && has_children; child = child->next)
        if (child->type == XML_ELEMENT_NODE)
            vulkan_append_lines(child, mark, depth + 1, lines);
    if (has_children)
        g_ptr_array_add(lines, g_strdup_printf("%s %*s</%s>", mark, 2 * depth, "", name));
}

static void
vulkan_append_only(const xmlNode *one, const xmlNode *other, const char *mark,
                   const char *const *left_out, GPtrArray *lines)
{
    g_autoptr(GPtrArray) only = vg_xml_only_in(one, other, left_out);

    for (guint i = 0; i < only->len; i++)
        vulkan_append_lines(only->pdata[i], mark, 0, lines);
}

int
vg_vulkan_xml_compare(const char *before, const char *after, GPtrArray *lines, GError **err)
{
    g_autoptr(vg_xml) one = vg_xml_parse(before, "domain", err);
    g_autoptr(vg_xml) other = one ? vg_xml_parse(after, "domain", err) : NULL;

    if (!other)
        return -1;
    const xmlNode *old = vg_xml_root(one), *new = vg_xml_root(other);
    vulkan_append_only(old, new, "-", vulkan_not_compared, lines);
    vulkan_append_only(new, old, "+", vulkan_not_compared, lines);
    old = vg_xml_child(old, "devices");
    new = vg_xml_child(new, "devices");
    vulkan_append_only(old, new, "-", NULL, lines);
    vulkan_append_only(new, old, "+", NULL, lines);
    return 0;
}
