/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"

#include "host/move-xml.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "host/device-xml.h"
#include "host/domain-class.h"
#include "host/move-objects.h"
#include "host/move-paths.h"
#include "host/xml-walk.h"
#include "model/path.h"

#define TEXT_BYTES_MAX 1024
#define PATH_BYTES_MAX 4096
#define DISKS_MAX      256
/* The maximum depth of a domain. A chain of backing files is the deepest. */
#define DEPTH_MAX 64

/* ---- what it needs ---- */

/* Lists the names of the domain's disks. */
static void
move_xml_read_disks(const xmlNode *domain, vg_move_needs *needs)
{
    for (const xmlNode *disk = vg_xml_at(domain, "devices/disk");
         disk && needs->disks->len < DISKS_MAX; disk = vg_xml_next(disk)) {
        char *name = vg_xml_attribute(vg_xml_child(disk, "target"), "dev", TEXT_BYTES_MAX);
        if (name)
            g_ptr_array_add(needs->disks, name);
    }
}

/* Lists the elements with an unknown class, each path once. */
static void
move_xml_find_news(const xmlNode *node, const char *above, unsigned depth, GPtrArray *news)
{
    for (const xmlNode *child = node->children; child; child = child->next) {
        if (child->type != XML_ELEMENT_NODE)
            continue;
        g_autofree char *path = g_strconcat(above, *above ? "/" : "", child->name, NULL);
        if (vg_domain_class_of(path) != VG_DOMAIN_CLASS_NEW) {
            if (depth < DEPTH_MAX && strcmp(path, "metadata") != 0)
                move_xml_find_news(child, path, depth + 1, news);
        } else if (!g_ptr_array_find_with_equal_func(news, path, g_str_equal, NULL)) {
            g_ptr_array_add(news, g_steal_pointer(&path));
        }
    }
}

vg_move_needs *
vg_move_needs_read(const char *xml, GError **err)
{
    g_autoptr(vg_xml) doc = vg_xml_parse(xml, "domain", err);

    if (!doc)
        return NULL;
    vg_move_needs *needs = g_new0(vg_move_needs, 1);
    const xmlNode *domain = vg_xml_root(doc);
    const xmlNode *type = vg_xml_at(domain, "os/type"), *cpu = vg_xml_child(domain, "cpu");
    needs->virt_type = vg_xml_attribute(domain, "type", TEXT_BYTES_MAX);
    needs->arch = vg_xml_attribute(type, "arch", TEXT_BYTES_MAX);
    needs->machine = vg_xml_attribute(type, "machine", TEXT_BYTES_MAX);
    needs->emulator = vg_xml_text(vg_xml_at(domain, "devices/emulator"), PATH_BYTES_MAX);
    needs->cpu_xml = cpu ? vg_xml_write(cpu) : NULL;
    needs->host_cpu = vg_xml_attribute_is(cpu, "mode", "host-passthrough") ||
                      vg_xml_attribute_is(cpu, "mode", "maximum");
    needs->huge_pages = vg_xml_at(domain, "memoryBacking/hugepages") != NULL;
    needs->paths = g_ptr_array_new_with_free_func(vg_path_need_free);
    needs->disks = g_ptr_array_new_with_free_func(g_free);
    move_xml_read_disks(domain, needs);
    needs->objects = move_objects_read(domain);
    needs->news = g_ptr_array_new_with_free_func(g_free);
    move_xml_find_news(domain, "", 0, needs->news);
    move_paths_read(domain, needs->paths);
    return needs;
}

void
vg_move_needs_free(vg_move_needs *needs)
{
    if (!needs)
        return;
    g_free(needs->virt_type);
    g_free(needs->arch);
    g_free(needs->machine);
    g_free(needs->emulator);
    g_free(needs->cpu_xml);
    g_ptr_array_unref(needs->paths);
    g_ptr_array_unref(needs->disks);
    g_ptr_array_unref(needs->objects);
    g_ptr_array_unref(needs->news);
    g_free(needs);
}

/* ---- what stands in the way ---- */

static void add_problem(GPtrArray *problems, const char *fmt, ...) G_GNUC_PRINTF(2, 3);

static void
add_problem(GPtrArray *problems, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    g_ptr_array_add(problems, g_strdup_vprintf(fmt, args));
    va_end(args);
}

static char *
alias_of(const xmlNode *node)
{
    return vg_xml_attribute(vg_xml_child(node, "alias"), "name", TEXT_BYTES_MAX);
}

static bool
is_off(const char *alias, const char *const *off)
{
    return alias && g_strv_contains(off, alias);
}

/* Returns whether the domain has the root bus of q35, from which nothing can be unplugged while the
 * guest runs. */
static bool
has_rigid_root(const xmlNode *devices)
{
    const xmlNode *controller = vg_xml_child(devices, "controller");

    while (controller && !vg_xml_attribute_is(controller, "model", "pcie-root"))
        controller = vg_xml_next(controller);
    return controller != NULL;
}

static bool
has_neighbour(const xmlNode *devices, const xmlNode *self, const char *address)
{
    for (const xmlNode *node = devices->children; node; node = node->next) {
        g_autofree char *other = node->type == XML_ELEMENT_NODE && node != self
                                     ? vg_xml_pci_address(vg_xml_child(node, "address"))
                                     : NULL;
        if (other && strncmp(other, address, strlen("0000:00:00.")) == 0)
            return true;
    }
    return false;
}

/* Reports a device that must be unplugged, but cannot be at its address in the guest. */
static void
find_rigid(const xmlNode *devices, const xmlNode *node, const char *alias, GPtrArray *problems)
{
    g_autofree char *address = vg_xml_pci_address(vg_xml_child(node, "address"));

    if (!address)
        return;
    if (has_rigid_root(devices) && g_str_has_prefix(address, "0000:00:"))
        add_problem(problems,
                    "device '%s' is on the VM's root bus, where it cannot be unplugged: put it "
                    "behind a pcie-root-port in the VM's definition, and restart the VM",
                    alias);
    if (has_neighbour(devices, node, address))
        add_problem(
            problems,
            "device '%s' shares its slot with another of the VM's devices and cannot be unplugged "
            "alone: give it its own slot in the VM's definition, and restart the VM",
            alias);
}

/* ---- aliases that libvirt makes ---- */

/* Returns the number in an alias, or -1 if it is another kind of alias. */
static int
move_xml_number_of(const char *alias)
{
    const char *digits =
        alias && g_str_has_prefix(alias, "hostdev") ? alias + strlen("hostdev") : "";

    return g_ascii_isdigit(*digits) ? atoi(digits) : -1;
}

static int
compare_numbers(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Finds devices whose aliases would change. libvirt gives a device without a user alias the number
 * after the highest one. Devices that are attached in their order get the same aliases again,
 * unless there is a gap in the numbers. */
static void
find_unstable(const xmlNode *devices, const char *const *off, GPtrArray *problems)
{
    g_autoptr(GArray) numbers = g_array_new(FALSE, FALSE, sizeof(int));
    int next = 0;

    for (const xmlNode *node = devices ? devices->children : NULL; node; node = node->next) {
        g_autofree char *alias = node->type == XML_ELEMENT_NODE ? alias_of(node) : NULL;
        int number = move_xml_number_of(alias);
        if (number >= 0 && is_off(alias, off))
            g_array_append_val(numbers, number);
        else
            next = MAX(next, number + 1);
    }
    g_array_sort(numbers, compare_numbers);
    for (unsigned i = 0; i < numbers->len; i++, next++)
        if (g_array_index(numbers, int, i) != next)
            add_problem(problems,
                        "device 'hostdev%d' would be named 'hostdev%d' after it is attached again, "
                        "and could not be recognised: give it an alias (<alias name='ua-gpu%d'/>) "
                        "in the VM's definition, and restart the VM",
                        g_array_index(numbers, int, i), next, next);
}

/* Reports a device with ramfb, for which libvirt uses a model without hotplug. */
static void
move_xml_find_ramfb(const char *xml, const xmlNode *node, const char *alias, GPtrArray *problems)
{
    if (vg_xml_attribute_is(node, "ramfb", "on") ||
        vg_domain_xml_overrides(xml, alias, "ramfb", "on") ||
        vg_domain_xml_overrides(xml, alias, "ramfb", "true"))
        add_problem(problems,
                    "device '%s' has ramfb='on', and QEMU cannot unplug such a device: remove "
                    "ramfb from the VM's definition, and restart the VM",
                    alias);
}

int
vg_move_xml_problems(const char *xml, const char *const *off, GPtrArray *problems, GError **err)
{
    g_autoptr(vg_xml) doc = vg_xml_parse(xml, "domain", err);

    if (!doc)
        return -1;
    const xmlNode *devices = vg_xml_child(vg_xml_root(doc), "devices");
    for (const xmlNode *node = devices ? devices->children : NULL; node; node = node->next) {
        g_autofree char *alias = node->type == XML_ELEMENT_NODE ? alias_of(node) : NULL;
        if (is_off(alias, off)) {
            find_rigid(devices, node, alias, problems);
            move_xml_find_ramfb(xml, node, alias, problems);
        }
    }
    find_unstable(devices, off, problems);
    return 0;
}
